#include <malloc.h>

#include "src/cli/commands.h"

int main(int argc, char** argv) {
  // Arrays come and go by the megabyte: their pages stay with the process instead of being asked
  // for, cleared and given back each time.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
  return tpuc::cli::Main(argc, argv);
}
