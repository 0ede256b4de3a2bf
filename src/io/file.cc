#include "src/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tpuc {
namespace {

bool ReadAll(int fd, int64_t expected, std::string* contents) {
  if (expected > 0) contents->reserve(expected);
  char buffer[1 << 16];
  for (;;) {
    ssize_t n = read(fd, buffer, sizeof buffer);
    if (n == 0) return true;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    contents->append(buffer, n);
  }
}

bool WriteAll(int fd, absl::string_view contents) {
  while (!contents.empty()) {
    ssize_t n = write(fd, contents.data(), contents.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    contents.remove_prefix(n);
  }
  return true;
}

bool Fail(DiagSink* diags, DiagCode code, absl::string_view what, const std::string& path) {
  diags->Add(code, absl::StrCat("cannot ", what, " '", path, "': ", std::strerror(errno)));
  return false;
}

}  // namespace

bool ReadFile(const std::string& path, std::string* contents, DiagSink* diags) {
  contents->clear();
  if (path == "-") {
    return ReadAll(STDIN_FILENO, 0, contents) ||
           Fail(diags, DiagCode::kFileRead, "read", "<stdin>");
  }
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Fail(diags, DiagCode::kFileRead, "read", path);
  struct stat info;
  bool ok = fstat(fd, &info) == 0;
  if (ok && S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    ok = false;
  }
  ok = ok && ReadAll(fd, S_ISREG(info.st_mode) ? info.st_size : 0, contents);
  int error = errno;
  close(fd);
  errno = error;
  return ok || Fail(diags, DiagCode::kFileRead, "read", path);
}

bool WriteFile(const std::string& path, absl::string_view contents, DiagSink* diags) {
  if (path == "-") {
    return WriteAll(STDOUT_FILENO, contents) ||
           Fail(diags, DiagCode::kFileWrite, "write", "<stdout>");
  }
  struct stat info;
  bool exists = stat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {  // a pipe or device: nothing to replace
    int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return Fail(diags, DiagCode::kFileWrite, "write", path);
    bool ok = WriteAll(fd, contents);
    int error = errno;
    close(fd);
    errno = error;
    return ok || Fail(diags, DiagCode::kFileWrite, "write", path);
  }
  // Through a symbolic link the target is replaced, not the link.
  std::string target = path;
  if (char* real = exists ? realpath(path.c_str(), nullptr) : nullptr) {
    target = real;
    free(real);
  }
  std::string temporary = absl::StrCat(target, ".tmpXXXXXX");
  int fd = mkstemp(temporary.data());
  if (fd < 0) return Fail(diags, DiagCode::kFileWrite, "write", path);
  mode_t mask = umask(0);
  umask(mask);
  bool ok = WriteAll(fd, contents) && fchmod(fd, exists ? info.st_mode & 07777 : 0666 & ~mask) == 0;
  ok = close(fd) == 0 && ok && rename(temporary.c_str(), target.c_str()) == 0;
  if (ok) return true;
  int error = errno;
  unlink(temporary.c_str());
  errno = error;
  return Fail(diags, DiagCode::kFileWrite, "write", path);
}

bool SameFile(const std::string& a, const std::string& b) {
  if (a == "-" || b == "-") return false;
  struct stat x, y;
  return stat(a.c_str(), &x) == 0 && stat(b.c_str(), &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino && S_ISREG(x.st_mode);
}

bool FileExists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

bool MakeDirectories(const std::string& path, DiagSink* diags) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at < path.size() && path[at] != '/') continue;
    std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
      return Fail(diags, DiagCode::kFileWrite, "make directory", path);
    }
  }
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return true;
  errno = ENOTDIR;
  return Fail(diags, DiagCode::kFileWrite, "make directory", path);
}

}  // namespace tpuc
