//===- runtime/job/bootstrap/endpoint.cpp -----------------------------------------------------===//
#include "runtime/job/bootstrap/endpoint.h"

#include "ir/failure.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/SHA1.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

// A job's directory is called KEY-RANDOM, or job-RANDOM if its key is not published, and holds two
// files: `s`, the socket, and `lock`, which the owner holds a lock on for as long as it lives.
// It is made under the name new-RANDOM, and gets its own when both files are there: so whoever sees
// that name can connect, and may take an unheld lock for the end of the owner.

namespace braid {

namespace {
constexpr const char *kSocket = "s";
constexpr const char *kLock = "lock";
constexpr size_t kKeyDigits = 16, kRandomDigits = 32;
constexpr size_t kInsteadDigits = 6; ///< as mkdtemp(3) makes them
constexpr time_t kUnfinishedSeconds = 60;
constexpr size_t kMostOfPath = sizeof(sockaddr_un::sun_path) - 1; ///< bytes of a socket's

Status failed(const std::string &what, int error) {
  return unsupported("{}: {}", what, llvm::sys::StrError(error));
}

bool isHex(llvm::StringRef text, size_t digits) {
  return text.size() == digits && llvm::all_of(text, llvm::isHexDigit);
}

/// Any key as a name. A Hello says the key itself, so that no harm comes of equal names.
std::string keyName(const std::string &job) {
  if (job.empty())
    return "job";
  llvm::SHA1 hash;
  hash.update(job);
  auto digest = hash.final();
  return llvm::toHex(llvm::StringRef(std::string(digest.begin(), digest.end())), true)
      .substr(0, kKeyDigits);
}

std::string userDirectory(const std::string &base) {
  return base + "/braid-" + std::to_string(geteuid());
}

/// What is there instead of a directory that is only this user's; empty: it is such a directory.
std::string whatIsWrong(const struct stat &status) {
  std::string of = " of user " + std::to_string(status.st_uid);
  if (!S_ISDIR(status.st_mode))
    return (S_ISLNK(status.st_mode) ? "a link" : "a file") + of;
  if (status.st_uid != geteuid())
    return "one" + of;
  return status.st_mode & 077 ? "one that is open to others" : "";
}

/// Nothing if there is none; a failure if it is not only this user's.
Result<FileDescriptor> openUserDirectory(const std::string &path) {
  FileDescriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  int error = errno;
  if (!directory.isValid() && error == ENOENT)
    return FileDescriptor();
  struct stat status {};
  // What cannot be opened is looked at all the same: it says whose it is.
  if ((directory.isValid() ? fstat(directory.get(), &status) : lstat(path.c_str(), &status)) != 0)
    return failed("cannot open '" + path + "'", errno);
  if (std::string wrong = whatIsWrong(status); !wrong.empty())
    return unsupported(
        "expected a directory of user {} with mode 0700 at '{}', got {}; set XDG_RUNTIME_DIR to a "
        "directory of your own, or TMPDIR where that is not set, the same for all ranks",
        geteuid(), path, wrong);
  if (!directory.isValid())
    return failed("cannot open '" + path + "'", error);
  return directory;
}

std::vector<std::string> entries(int directory) {
  std::vector<std::string> names;
  // A descriptor of its own, since closing the stream closes it.
  int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = again >= 0 ? fdopendir(again) : nullptr;
  if (!stream)
    return names;
  while (const dirent *entry = readdir(stream))
    names.emplace_back(entry->d_name);
  closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

/// A lock of an open file: it goes when the last descriptor of it is closed, at the latest with the
/// process. Unlike those of flock(2), it can be asked after without being taken for a moment, which
/// somebody else could mistake for the owner.
struct flock wholeFile() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// Of the job in `directory`. If in doubt, yes.
bool isOwnerAlive(int directory) {
  FileDescriptor file(openat(directory, kLock, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  // The file goes after the socket, so that there is nothing but an empty directory without it.
  if (!file.isValid())
    return errno != ENOENT;
  struct flock lock = wholeFile();
  return fcntl(file.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

FileDescriptor openDirectoryAt(int parent, const std::string &name) {
  return FileDescriptor(
      openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Only what is named as above; only the files above; so nothing else is ever removed.
void sweepOne(int parent, llvm::StringRef name) {
  auto [prefix, random] = name.split('-');
  if (!isHex(random, kRandomDigits) ||
      !(prefix == "job" || prefix == "new" || isHex(prefix, kKeyDigits)))
    return;
  FileDescriptor directory = openDirectoryAt(parent, name.str());
  struct stat status {};
  if (!directory.isValid() || fstat(directory.get(), &status) != 0)
    return;
  if (prefix == "new" && status.st_mtime + kUnfinishedSeconds > time(nullptr))
    return;
  if (isOwnerAlive(directory.get()))
    return;
  unlinkat(directory.get(), kSocket, 0);
  unlinkat(directory.get(), kLock, 0);
  unlinkat(parent, name.str().c_str(), AT_REMOVEDIR);
}

void sweepDirectory(int directory) {
  for (const std::string &entry : entries(directory))
    sweepOne(directory, entry);
}

/// What killed jobs left that had a directory instead of the user's.
void sweepInsteads(const std::string &base, const std::string &prefix) {
  FileDescriptor all(open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const std::string &name : entries(all.get())) {
    std::string path = base + "/" + name;
    if (!path.starts_with(prefix) || path.size() != prefix.size() + kInsteadDigits)
      continue;
    Result<FileDescriptor> directory = openUserDirectory(path);
    if (!directory || !directory->isValid())
      continue;
    sweepDirectory(directory->get());
    rmdir(path.c_str()); // if nobody is in it
  }
}

/// The user's directory. If that name is taken, and nobody has to find the job by its key, a new
/// one with another name.
Result<std::string> chooseDirectory(const std::string &base, const std::string &job) {
  std::string own = userDirectory(base);
  Result<FileDescriptor> opened = openUserDirectory(own);
  if (opened)
    return own;
  if (!job.empty())
    return opened.status();
  sweepInsteads(base, own + "-");
  std::string instead = own + "-" + std::string(kInsteadDigits, 'X');
  return mkdtemp(instead.data()) ? Result<std::string>(instead) : opened.status();
}

/// The directory of all jobs, swept, and in it a new one named `name`.
Status makeDirectory(const std::string &parent, const std::string &name) {
  // Whoever was the last to go also removes the parent, perhaps just now.
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST)
      return failed("cannot make the directory '" + parent + "'", errno);
    FileDescriptor directory = BRAID_TRY(openUserDirectory(parent));
    if (!directory.isValid())
      continue;
    sweepDirectory(directory.get());
    if (mkdirat(directory.get(), name.c_str(), 0700) == 0)
      return Status::ok();
    if (errno != ENOENT)
      return failed("cannot make a directory in '" + parent + "'", errno);
  }
  return unsupported("cannot keep the directory '{}'", parent);
}

Result<FileDescriptor> makeLock(const std::string &path) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  struct flock lock = wholeFile();
  if (!file.isValid() || fcntl(file.get(), F_OFD_SETLK, &lock) != 0)
    return failed("cannot lock '" + path + "'", errno);
  return file;
}

Result<FileDescriptor> listenAt(const std::string &path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.isValid() ||
      bind(socket.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 ||
      chmod(path.c_str(), 0600) != 0 || listen(socket.get(), SOMAXCONN) != 0)
    return failed("cannot listen at '" + path + "'", errno);
  return socket;
}

Status checkLength(const std::string &path) {
  if (path.size() <= kMostOfPath)
    return Status::ok();
  return unsupported("expected a path of at most {} bytes for a socket, got {}: '{}'; set "
                     "XDG_RUNTIME_DIR or TMPDIR to a shorter one",
                     kMostOfPath, path.size(), path);
}

/// The names in `directory` that begin with `prefix` and whose owner is alive, the newest first.
std::vector<std::string> livingEndpoints(const FileDescriptor &directory,
                                         const std::string &prefix) {
  std::vector<std::pair<int64_t, std::string>> found;
  for (const std::string &name : entries(directory.get())) {
    FileDescriptor endpoint;
    if (name.starts_with(prefix))
      endpoint = openDirectoryAt(directory.get(), name);
    struct stat status {};
    if (endpoint.isValid() && isOwnerAlive(endpoint.get()) && fstat(endpoint.get(), &status) == 0)
      found.emplace_back(-(status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec), name);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto &[age, name] : found)
    names.push_back(std::move(name));
  return names;
}
} // namespace

Result<std::string> randomName() {
  std::array<char, kRandomDigits / 2> bytes; // so few come at once
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return failed("cannot get a random name", errno);
  return llvm::toHex(llvm::StringRef(bytes.data(), bytes.size()), true);
}

std::string endpointBase(const Environment &environment) {
  struct stat status {};
  const std::string runtime = environment("XDG_RUNTIME_DIR").value_or("");
  if (runtime.starts_with('/') && stat(runtime.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
      status.st_uid == geteuid())
    return runtime;
  const std::string temporary = environment("TMPDIR").value_or("");
  return temporary.starts_with('/') ? temporary : "/tmp";
}

int64_t excessOfEndpoint(const std::string &base, const std::string &job) {
  const std::string path = userDirectory(base) + "/" + keyName(job) + "-" +
                           std::string(kRandomDigits, '0') + "/" + kSocket;
  return static_cast<int64_t>(path.size()) - static_cast<int64_t>(kMostOfPath);
}

Result<RendezvousEndpoint> RendezvousEndpoint::open(const std::string &base,
                                                    const std::string &job) {
  std::string random = BRAID_TRY(randomName());
  std::string parent = BRAID_TRY(chooseDirectory(base, job));
  std::string unfinished = "new-" + random;
  std::string final = parent + "/" + keyName(job) + "-" + random;
  RendezvousEndpoint endpoint; // from here on, it removes what has been made
  endpoint.parent_ = parent;
  endpoint.directory_ = parent + "/" + unfinished;
  BRAID_TRY(checkLength(final + "/" + kSocket));
  BRAID_TRY(makeDirectory(parent, unfinished));
  endpoint.lock_ = BRAID_TRY(makeLock(endpoint.directory_ + "/" + kLock));
  endpoint.listener_ = BRAID_TRY(listenAt(endpoint.directory_ + "/" + kSocket));
  if (rename(endpoint.directory_.c_str(), final.c_str()) != 0)
    return failed("cannot rename '" + endpoint.directory_ + "'", errno);
  endpoint.directory_ = final;
  endpoint.path_ = final + "/" + kSocket;
  return endpoint;
}

RendezvousEndpoint::RendezvousEndpoint(RendezvousEndpoint &&other) noexcept
    : parent_(std::move(other.parent_)), directory_(std::exchange(other.directory_, {})),
      path_(std::move(other.path_)), listener_(std::move(other.listener_)),
      lock_(std::move(other.lock_)) {}

RendezvousEndpoint::~RendezvousEndpoint() { close(); }

void RendezvousEndpoint::close() {
  if (directory_.empty())
    return;
  listener_.reset();
  unlink((directory_ + "/" + kSocket).c_str());
  unlink((directory_ + "/" + kLock).c_str());
  rmdir(directory_.c_str());
  rmdir(parent_.c_str()); // if no other job is in it
  lock_.reset();
  directory_.clear();
}

Result<std::vector<std::string>>
findRendezvousEndpoints(const std::string &base, const std::string &job, Deadline deadline) {
  if (job.empty())
    return badInput("expected the key of a job, got an empty one");
  std::string parent = userDirectory(base);
  std::string prefix = keyName(job) + "-";
  while (true) {
    FileDescriptor directory = BRAID_TRY(openUserDirectory(parent));
    if (std::vector<std::string> names = livingEndpoints(directory, prefix); !names.empty()) {
      for (std::string &name : names)
        name = parent + "/" + name + "/" + kSocket;
      return names;
    }
    if (std::chrono::steady_clock::now() >= deadline)
      return timedOut("expected the first rank of job '{}' to listen in '{}', got nobody", job,
                      parent);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

} // namespace braid
