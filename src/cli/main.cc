#include "src/cli/commands.h"

int main(int argc, char** argv) { return tpuc::cli::Main(argc, argv); }
