//===- runtime/files.cpp - reads and writes whole files ---------------------------------------===//

#include "runtime/files.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/job/bootstrap/socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace braid {
namespace {

Status cannot(const char *what, const std::string &path, int error) {
  const StatusCode code = *what == 'r' ? StatusCode::BadInput : StatusCode::Unsupported;
  const std::string name = path != "-"    ? "'" + printable(path, PATH_MAX) + "'"
                           : *what == 'r' ? "standard input"
                                          : "standard output";
  return Status(code, fmt::format("cannot {} {}: {}", what, name, std::strerror(error)));
}

bool isStandard(const std::string &path) { return path == "-"; }

/// Returns true for devices, pipes and files that this process has already opened.
bool isSpecial(const std::string &path) {
  for (const char *open : {"/dev/std", "/dev/fd/", "/proc/"})
    if (path.starts_with(open))
      return true;
  struct stat about = {};
  return stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode);
}

std::string folderOf(const std::string &path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// Resolves the links in a path. A link to a file that does not exist is followed once.
std::string resolved(const std::string &path) {
  char target[PATH_MAX + 1];
  if (realpath(path.c_str(), target))
    return target;
  const ssize_t size = readlink(path.c_str(), target, PATH_MAX);
  if (size <= 0)
    return path;
  const std::string named(target, static_cast<size_t>(size));
  return named.front() == '/' ? named : folderOf(path) + "/" + named;
}

//===- In place -------------------------------------------------------------------------------===//

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

//===- As a whole -----------------------------------------------------------------------------===//

/// A file that replaces `path` when it is complete. Until then it is unnamed if the file system
/// permits, so that nothing is left if this process is killed.
class Replacement {
public:
  Replacement(std::string path, std::optional<unsigned> mode)
      : path_(std::move(path)), folder_(folderOf(path_)), mode_(mode.value_or(0666)),
        keepsMode_(!mode) {
    file_ = FileDescriptor(open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode_));
    if (!file_.isValid() && (errno == EOPNOTSUPP || errno == EISDIR))
      error_ = takeName([this](const char *name) { return create(name); });
    else if (!file_.isValid())
      error_ = errno;
  }
  ~Replacement() {
    if (!name_.empty())
      unlink(name_.c_str());
  }
  Replacement(const Replacement &) = delete;

  /// Returns 0 or an errno.
  int put(llvm::StringRef text) {
    if (error_ == 0 && keepsMode_)
      takeOverMode();
    if (error_ == 0)
      error_ = writeAll(file_.get(), text);
    if (error_ == 0 && name_.empty())
      error_ = takeName([this](const char *name) { return link(name); });
    if (error_ == 0 && rename(name_.c_str(), path_.c_str()) != 0)
      error_ = errno;
    if (error_ == 0)
      name_.clear();
    return error_;
  }

private:
  /// Copies the mode of a file of this user only: another owner must not decide who can write the
  /// new one.
  void takeOverMode() {
    struct stat old = {};
    if (lstat(path_.c_str(), &old) == 0 && S_ISREG(old.st_mode) && old.st_uid == geteuid())
      fchmod(file_.get(), old.st_mode & 0777);
  }
  bool create(const char *name) {
    constexpr int kNew = O_CREAT | O_EXCL | O_NOFOLLOW;
    file_ = FileDescriptor(open(name, O_WRONLY | O_CLOEXEC | kNew, mode_));
    return file_.isValid();
  }
  bool link(const char *name) {
    const std::string self = fmt::format("/proc/self/fd/{}", file_.get());
    return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
  }

  /// Gives the file an unused name. Never follows an existing link. Returns 0 or an errno.
  template <typename Take> int takeName(Take take) {
    constexpr int kAttempts = 100;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      std::string name = fmt::format("{}/.braid-{}-{}", folder_, getpid(), attempt);
      if (take(name.c_str())) {
        name_ = std::move(name);
        return 0;
      }
      if (errno != EEXIST)
        break;
    }
    return errno;
  }

  const std::string path_, folder_;
  const mode_t mode_;
  const bool keepsMode_; ///< use the mode of the replaced file
  std::string name_;     ///< empty if the file is unnamed
  FileDescriptor file_;
  int error_ = 0;
};

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

Status replaceFile(const std::string &path, llvm::StringRef text, const ReplaceOptions &options) {
  const int error = Replacement(path, options.mode).put(text);
  const std::string &name = options.shownAs.empty() ? path : options.shownAs;
  return error == 0 ? Status::ok() : cannot("write", name, error);
}

Status writeFile(const std::string &path, llvm::StringRef text) {
  if (isStandard(path)) {
    const int error = writeAll(STDOUT_FILENO, text);
    return error == 0 || error == EPIPE ? Status::ok() : cannot("write", path, error);
  }
  return isReplacedAsAWhole(path) ? replaceFile(resolved(path), text, {.shownAs = path})
                                  : writeInPlace(path, text);
}

/// Returns the resolved path of a file that may not exist yet.
static std::string placeOf(const std::string &path) {
  const std::string file = resolved(path);
  return resolved(folderOf(file)) + "/" + file.substr(file.rfind('/') + 1);
}

bool areOneFile(const std::string &a, const std::string &b) {
  if (a.empty() || b.empty() || isStandard(a) || isStandard(b))
    return false;
  struct stat first = {}, second = {};
  const bool isFirst = stat(a.c_str(), &first) == 0, isSecond = stat(b.c_str(), &second) == 0;
  if (!isFirst || !isSecond)
    return isFirst == isSecond && placeOf(a) == placeOf(b);
  return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

Status checkWritable(const std::string &path) {
  if (isStandard(path))
    return Status::ok();
  struct stat about = {};
  const bool isThere = stat(path.c_str(), &about) == 0;
  if (isThere && S_ISDIR(about.st_mode))
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
  return badInput("'{}' has more than {} bytes, expected at most that many",
                  isStandard(path) ? "<stdin>" : path, mostBytes);
}

} // namespace braid
