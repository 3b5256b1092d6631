//===- runtime/tune/measurement_cache.h - what was measured on this machine, kept on disk -----===//
//
//   MeasurementCache cache(measurementFolder(processEnvironment()), machine, warn);
//   std::optional<std::string> value = cache.find(key);
//   if (!value || !isStillValid(*value)) {
//     cache.set(key, measure());
//     cache.save();
//   }
//
// One file for each machine, named after a hash of the machine's key, which the file holds in full.
// A file that is damaged, of another version or another machine is ignored and replaced. A reader
// never sees half a file: it is written under another name and renamed. Jobs that save at the same
// time take turns, and each adds to what the others have written.
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

/// The folder of measurements: $BRAID_CACHE_DIR, or else $XDG_CACHE_HOME/braid, or else
/// ~/.cache/braid. Empty if there is none: BRAID_CACHE_DIR=none, or no HOME.
std::string measurementFolder(const Environment &environment);

/// Texts by text. Any number of caches of one machine may exist at a time, in this process and in
/// others; one of them is used by one thread at a time.
///
/// Nothing here fails: without a file, or a folder that can be written, measurements are kept in
/// memory, and `warn` is told so once, in one line.
class MeasurementCache {
public:
  using Warn = std::function<void(const std::string &line)>;

  /// Reads what there is. `machine` names everything that values depend on: the device, its driver,
  /// the libraries' versions. An empty `folder` means in memory only. `warn` may be null.
  MeasurementCache(std::string folder, std::string machine, Warn warn);

  std::optional<std::string> find(const std::string &key) const;
  /// The entries whose keys begin with `prefix`.
  std::vector<std::pair<std::string, std::string>> startingWith(const std::string &prefix) const;
  /// Takes up what other jobs have saved since, but for what was set here.
  void refresh();
  /// In memory, until save().
  void set(const std::string &key, std::string value);
  /// Writes what was set, if anything was, together with all that is in the file by now, which
  /// find() then finds, too. Waits for other jobs to write theirs, at most for kPatience.
  void save();
  /// Whether the file has all that was set.
  bool isSaved() const { return unsaved_.empty(); }

  /// The file; empty if there is none because the folder is.
  const std::string &path() const { return path_; }

  static constexpr std::chrono::milliseconds kPatience{2000};

private:
  void warnOnce(const std::string &line);
  void read(std::map<std::string, std::string> &entries);
  Status write();

  const std::string folder_, machine_, path_;
  const Warn warn_;
  std::map<std::string, std::string> entries_;
  std::set<std::string> unsaved_; ///< keys of entries that were set since the last save
  bool hasWarned_ = false;
};

} // namespace braid
