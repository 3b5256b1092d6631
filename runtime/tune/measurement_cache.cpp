//===- runtime/tune/measurement_cache.cpp - measurements of this machine, on disk -------------===//

#include "runtime/tune/measurement_cache.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/files.h"
#include "runtime/job/bootstrap/socket.h"
#include "runtime/tune/measurement_file.h"

#include "llvm/Support/xxhash.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <thread>

namespace braid {
namespace {

/// Maximum file size, enough for a hundred thousand GEMMs. A larger file is not a Braid cache.
constexpr size_t kMaxBytes = size_t(32) << 20;
constexpr size_t kShownOfReason = 300;

Status failed(const std::string &what, const std::string &path, int error) {
  return unsupported("cannot {} '{}': {}", what, path, std::strerror(error));
}

/// Acquires the lock for replacing the file. The lock is released when the process ends, even if it
/// is killed.
Result<FileDescriptor> lock(const std::string &path) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.isValid())
    return failed("open", path, errno);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + MeasurementCache::kPatience;
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return failed("lock", path, errno);
    if (Clock::now() >= end)
      return unsupported("another job has held the lock '{}' for {} ms", path,
                         MeasurementCache::kPatience.count());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return file;
}

} // namespace

std::string measurementFolder(const Environment &environment) {
  auto given = [&](const char *name) { return environment(name).value_or(""); };
  if (std::string folder = given("BRAID_CACHE_DIR"); !folder.empty())
    return folder == "none" ? "" : folder;
  // The XDG standard requires relative paths to be ignored.
  if (std::string caches = given("XDG_CACHE_HOME"); caches.starts_with('/'))
    return caches + "/braid";
  const std::string home = given("HOME");
  return home.empty() ? "" : home + "/.cache/braid";
}

MeasurementCache::MeasurementCache(std::string folder, std::string machine, Warn warn)
    : folder_(std::move(folder)), machine_(std::move(machine)),
      path_(folder_.empty()
                ? ""
                : fmt::format("{}/{:016x}.measurements", folder_, llvm::xxHash64(machine_))),
      warn_(std::move(warn)) {
  if (!path_.empty())
    read();
}

void MeasurementCache::warnOnce(const std::string &line) {
  if (warn_ && !std::exchange(hasWarned_, true))
    warn_(line);
}

/// Adds the file's entries, except for unsaved keys, if the file exists and is valid. Does not
/// create the folder.
void MeasurementCache::read() {
  std::error_code error;
  const std::filesystem::file_status about = std::filesystem::status(path_, error);
  if (about.type() == std::filesystem::file_type::not_found)
    return;
  Result<std::string> text = std::filesystem::is_regular_file(about) || error
                                 ? readFile(path_, kMaxBytes)
                                 : badInput("it is not a regular file");
  Result<MeasurementFile> found = text ? MeasurementFile::decode(*text) : text.status();
  if (found && found->machine != machine_)
    found = badInput("its measurements are from a different machine ({})", found->machine);
  if (!found)
    return warnOnce(fmt::format("measuring again, because '{}' cannot be used: {}", path_,
                                printable(found.status().message(), kShownOfReason)));
  for (auto &[key, value] : found->entries)
    if (!unsaved_.count(key))
      entries_[key] = std::move(value);
}

std::optional<std::string> MeasurementCache::find(const std::string &key) const {
  auto found = entries_.find(key);
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::pair<std::string, std::string>>
MeasurementCache::startingWith(const std::string &prefix) const {
  auto end = entries_.lower_bound(prefix);
  const auto begin = end;
  while (end != entries_.end() && end->first.starts_with(prefix))
    ++end;
  return {begin, end};
}

void MeasurementCache::set(const std::string &key, std::string value) {
  entries_[key] = std::move(value);
  unsaved_.insert(key);
}

void MeasurementCache::save() {
  if (path_.empty() || unsaved_.empty())
    return;
  Status status = write();
  if (status.isOk())
    unsaved_.clear();
  else
    warnOnce("measurements cannot be cached: " + status.message());
}

Status MeasurementCache::write() {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error)
    return failed("create the folder", folder_, error.value());
  FileDescriptor turn = BRAID_TRY(lock(path_ + ".lock"));
  read(); // other jobs may have saved entries
  std::string text = MeasurementFile{machine_, entries_}.encode();
  if (text.size() > kMaxBytes) { // too large to read later: start over with the new entries
    std::erase_if(entries_, [&](const auto &entry) { return !unsaved_.count(entry.first); });
    text = MeasurementFile{machine_, entries_}.encode();
  }
  return replaceFile(path_, text);
}

} // namespace braid
