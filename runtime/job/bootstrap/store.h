//===- runtime/job/bootstrap/store.h - the key-value store that a job's hosts share -----------===//
//
// All hosts of a job can access the store. They communicate only through the store and NCCL.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA1.h"

#include <chrono>
#include <optional>
#include <string>

namespace braid {

inline constexpr size_t kMaxStoreValue = size_t(4) << 20;

/// A connection to the store. Calls must be serialized. Each returns within kLongest: with TimedOut
/// if the store has not answered, and with PeerFailed if it is permanently gone. A timed-out call
/// may be retried, even if the store has executed it. Values have 1 to kMaxStoreValue bytes.
class Store {
public:
  static constexpr std::chrono::milliseconds kLongest{100};
  virtual ~Store() = default;

  /// Sets or replaces the value of `key`. Later calls on any host see the new value.
  virtual Status put(const std::string &key, const std::string &value) = 0;
  /// Sets the value of `key` if it has none. Returns the resulting value.
  virtual Result<std::string> putIfAbsent(const std::string &key, const std::string &value) = 0;
  /// Returns the value of `key`, or nullopt if it has none.
  virtual Result<std::optional<std::string>> poll(const std::string &key) = 0;
};

/// Returns a digest of `text` with 32 hexadecimal digits.
inline std::string digestOf(const std::string &text) {
  return llvm::toHex(llvm::SHA1::hash(llvm::arrayRefFromStringRef(text)), true).substr(0, 32);
}
/// Returns the prefix of all keys of `job`, for example "braid/6f1c...a0/".
inline std::string storePrefix(const std::string &job) { return "braid/" + digestOf(job) + "/"; }

} // namespace braid
