//===- runtime/files.cpp - reads and writes whole files ---------------------------------------===//

#include "runtime/files.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/job/bootstrap/socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace braid {
namespace {

namespace fs = std::filesystem;

Status cannot(const char *what, const std::string &path, int error) {
  const StatusCode code = *what == 'r' ? StatusCode::BadInput : StatusCode::Unsupported;
  const std::string name = path != "-"    ? "'" + printable(path, PATH_MAX) + "'"
                           : *what == 'r' ? "standard input"
                                          : "to standard output";
  return Status(code, fmt::format("cannot {} {}: {}", what, name, std::strerror(error)));
}

bool isStandard(const std::string &path) { return path == "-"; }

/// Returns true for devices, pipes and files that this process has already opened.
bool isSpecial(const std::string &path) {
  for (const char *open : {"/dev/std", "/dev/fd/", "/proc/"})
    if (path.starts_with(open))
      return true;
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error);
}

std::string folderOf(const std::string &path) {
  const std::string folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

/// Resolves the symbolic links in a path. A dangling link is followed one level.
std::string resolved(const std::string &path) {
  std::error_code error;
  if (const fs::path target = fs::canonical(path, error); !error)
    return target;
  const fs::path named = fs::read_symlink(path, error);
  return error ? fs::path(path) : folderOf(path) / named; // yields `named` if it is absolute
}

//===- Writing in place -----------------------------------------------------------------------===//

/// Opens without blocking, because opening a pipe for writing would wait for a reader indefinitely.
FileDescriptor openInPlace(const std::string &path) {
  const Deadline deadline = deadlineIn(std::chrono::milliseconds(kReaderPatienceMs));
  while (true) {
    FileDescriptor file(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (file.isValid()) {
      fcntl(file.get(), F_SETFL, fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
      return file;
    }
    if (errno != ENXIO || std::chrono::steady_clock::now() >= deadline)
      return file;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Status writeInPlace(const std::string &path, llvm::StringRef text) {
  const FileDescriptor file = openInPlace(path);
  if (!file.isValid() && errno == ENXIO)
    return unsupported("cannot write '{}': no process has it open for reading", path);
  const int error = file.isValid() ? writeAll(file.get(), text) : errno;
  return error == 0 ? Status::ok() : cannot("write", path, error);
}

//===- Atomic replacement ---------------------------------------------------------------------===//

/// Copies the old file's mode only if this user owns that file: another owner must not control who
/// can write the new file.
void takeOverMode(int descriptor, const std::string &path) {
  struct stat old = {};
  if (lstat(path.c_str(), &old) == 0 && S_ISREG(old.st_mode) && old.st_uid == geteuid())
    fchmod(descriptor, old.st_mode & 0777);
}

/// Writes a temporary file, then renames it to `path`. Never writes through an existing file or
/// link. Returns 0 or an errno value.
int replace(const std::string &path, llvm::StringRef text, std::optional<unsigned> mode) {
  constexpr int kAttempts = 100, kNew = O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL | O_NOFOLLOW;
  FileDescriptor file;
  std::string name;
  for (int attempt = 0; attempt < kAttempts && !file.isValid(); ++attempt) {
    name = fmt::format("{}/.braid-{}-{}", folderOf(path), getpid(), attempt);
    file = FileDescriptor(open(name.c_str(), kNew, mode.value_or(0666)));
    if (!file.isValid() && errno != EEXIST)
      return errno;
  }
  if (!file.isValid())
    return EEXIST;
  if (!mode)
    takeOverMode(file.get(), path);
  int error = writeAll(file.get(), text);
  if (error == 0 && rename(name.c_str(), path.c_str()) != 0)
    error = errno;
  if (error != 0)
    unlink(name.c_str());
  return error;
}

} // namespace

int writeAll(int descriptor, llvm::StringRef text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR)
      return errno;
    if (written > 0)
      text = text.drop_front(static_cast<size_t>(written));
  }
  return 0;
}

bool isReplacedAsAWhole(const std::string &path) { return !isStandard(path) && !isSpecial(path); }

Status replaceFile(const std::string &path, llvm::StringRef text, std::optional<unsigned> mode) {
  const int error = replace(path, text, mode);
  return error == 0 ? Status::ok() : cannot("write", path, error);
}

Status writeFile(const std::string &path, llvm::StringRef text) {
  if (!isStandard(path) && isSpecial(path))
    return writeInPlace(path, text);
  const int error = isStandard(path) ? writeAll(STDOUT_FILENO, text)
                                     : replace(resolved(path), text, std::nullopt);
  const bool isFine = error == 0 || (isStandard(path) && error == EPIPE);
  return isFine ? Status::ok() : cannot("write", path, error);
}

bool areOneFile(const std::string &a, const std::string &b) {
  if (a.empty() || b.empty() || isStandard(a) || isStandard(b))
    return false;
  std::error_code error;
  const auto placeOf = [&](const std::string &path) {
    return fs::weakly_canonical(fs::absolute(resolved(path), error), error);
  };
  if (!fs::exists(a, error) && !fs::exists(b, error))
    return placeOf(a) == placeOf(b);
  return fs::equivalent(a, b, error) && fs::is_regular_file(a, error);
}

Status checkWritable(const std::string &path) {
  if (isStandard(path))
    return Status::ok();
  std::error_code error;
  if (fs::is_directory(path, error))
    return cannot("write", path, EISDIR);
  const std::string needed = isReplacedAsAWhole(path) ? folderOf(resolved(path)) : path;
  return access(needed.c_str(), W_OK) == 0 ? Status::ok() : cannot("write", path, errno);
}

Result<std::string> readFile(const std::string &path, size_t mostBytes) {
  FileDescriptor opened;
  if (!isStandard(path)) {
    opened = FileDescriptor(open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC));
    if (!opened.isValid())
      return cannot("read", path, errno);
  }
  const int descriptor = isStandard(path) ? STDIN_FILENO : opened.get();
  constexpr size_t kPiece = size_t(1) << 16;
  std::string text;
  while (text.size() <= mostBytes) {
    const size_t size = text.size();
    text.resize(size + kPiece);
    const ssize_t count = read(descriptor, text.data() + size, kPiece);
    const int error = errno;
    text.resize(size + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0)
      return text;
    if (count < 0 && error != EINTR)
      return cannot("read", path, error);
  }
  return badInput("'{}' exceeds the limit of {} bytes", isStandard(path) ? "<stdin>" : path,
                  mostBytes);
}

} // namespace braid
