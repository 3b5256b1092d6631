//===- runtime/job/bootstrap/store.cpp - the key-value store that a job's hosts share ---------===//

#include "runtime/job/bootstrap/store.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA1.h"

namespace braid {

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
