//===- runtime/job/bootstrap/store.h - what the hosts of a job have in common -----------------===//
//
// Texts by name, which every host of a job can read and write. Nothing else goes between hosts but
// what NCCL carries.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include <chrono>
#include <optional>
#include <string>

namespace braid {

inline constexpr size_t kMaxStoreValue = size_t(4) << 20;

/// Calls are made by one thread at a time. Each returns within kLongest: TimedOut if the store has
/// not answered by then. The same call may be made again, which does no harm if the store has
/// already done it. PeerFailed if the store is gone, for good. A value is any 1 to kMaxStoreValue
/// bytes.
class Store {
public:
  static constexpr std::chrono::milliseconds kLongest{100};
  virtual ~Store() = default;

  /// In the place of what was there. A later call of this or another host sees it.
  virtual Status put(const std::string &key, const std::string &value) = 0;
  /// Returns the text that is there then: `value`, or the one that was put first.
  virtual Result<std::string> putIfAbsent(const std::string &key, const std::string &value) = 0;
  /// Returns the text that is there, or nothing.
  virtual Result<std::optional<std::string>> poll(const std::string &key) = 0;
};

/// 32 hexadecimal digits, unlike those of any other text.
std::string digestOf(const std::string &text);
/// "braid/6f1c...a0/": what the keys of a job of that name begin with.
std::string storePrefix(const std::string &job);

} // namespace braid
