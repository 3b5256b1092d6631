//===- runtime/tune/measurement_cache.h - measurements of this machine, on disk ---------------===//
//
//   MeasurementCache cache(measurementFolder(processEnvironment()), machine, warn);
//   std::optional<std::string> value = cache.find(key);
//   if (!value || !isStillValid(*value)) {
//     cache.set(key, measure());
//     cache.save();
//   }
//
// Each machine has one file, named by a hash of the machine's key. The file also contains the full
// key. A damaged file, or a file for another version or machine, is ignored and replaced. Files are
// replaced by renaming, so readers never see a partial file. Concurrent jobs save one at a time,
// and each job preserves the entries of the others.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/environment.h"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace braid {

/// Returns the folder for measurements: $BRAID_CACHE_DIR, else $XDG_CACHE_HOME/braid, else
/// ~/.cache/braid; or an empty string if BRAID_CACHE_DIR=none or none of the variables is set.
std::string measurementFolder(const Environment &environment);

/// A map from strings to strings. Several caches for one machine may exist at the same time, in one
/// or several processes. A cache is not thread-safe.
///
/// No function fails. If the file is unreadable or the folder is not writable, measurements stay in
/// memory, and `warn` is called once with a one-line message.
class MeasurementCache {
public:
  using Warn = std::function<void(const std::string &line)>;

  /// Reads the file, if it exists. `machine` identifies all factors that affect the values: the
  /// device, its driver, and library versions. If `folder` is empty, the cache exists only in
  /// memory. `warn` may be null.
  MeasurementCache(std::string folder, std::string machine, Warn warn);

  std::optional<std::string> find(const std::string &key) const;
  /// Returns the entries whose keys start with `prefix`.
  std::vector<std::pair<std::string, std::string>> startingWith(const std::string &prefix) const;
  /// Sets an entry in memory; save() writes it to the file.
  void set(const std::string &key, std::string value);
  /// Writes new entries, if any, merged with the file's current contents; find() then returns the
  /// merged entries. Waits at most kPatience for other jobs to save.
  void save();

  /// Returns the path of the file, or an empty string if there is no folder.
  const std::string &path() const { return path_; }

  static constexpr std::chrono::milliseconds kPatience{2000};

private:
  void warnOnce(const std::string &line);
  void read();
  Status write();

  const std::string folder_, machine_, path_;
  const Warn warn_;
  std::map<std::string, std::string> entries_;
  std::set<std::string> unsaved_; ///< keys of entries that were set since the last save
  bool hasWarned_ = false;
};

} // namespace braid
