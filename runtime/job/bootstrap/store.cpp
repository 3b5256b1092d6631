//===- runtime/job/bootstrap/store.cpp - what the hosts of a job have in common ---------------===//

#include "runtime/job/bootstrap/store.h"

#include "ir/failure.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA1.h"

#include <algorithm>
#include <thread>

namespace braid {

Result<std::optional<std::string>> Store::get(const std::string &key,
                                              std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kPause{2};
  const auto deadline = std::chrono::steady_clock::now() + std::min(timeout, kLongest);
  for (;;) {
    std::optional<std::string> value = BRAID_TRY(poll(key));
    if (value || std::chrono::steady_clock::now() + kPause >= deadline)
      return value;
    std::this_thread::sleep_for(kPause);
  }
}

std::string digestOf(const std::string &text) {
  constexpr size_t kDigits = 32;
  llvm::SHA1 hash;
  hash.update(text);
  const auto digest = hash.final();
  const std::string bytes(digest.begin(), digest.end());
  return llvm::toHex(bytes, true).substr(0, kDigits);
}

std::string storePrefix(const std::string &job) { return "braid/" + digestOf(job) + "/"; }

} // namespace braid
