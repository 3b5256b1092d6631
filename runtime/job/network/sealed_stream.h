//===- runtime/job/network/sealed_stream.h - bytes that nobody else can read or change --------===//
//
// A stream of bytes travels in records, each sealed by ChaCha20-Poly1305 (RFC 8439) with the key of
// its direction and its number as the nonce: what is changed, left out, repeated or put elsewhere
// is no record of the stream.
//
//   4 bytes   length of what follows, little endian; authenticated as well
//   ...       the bytes, sealed, and 16 bytes of tag
//
// What is here knows bytes only, so that it can be fuzzed.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace braid {

inline constexpr size_t kStreamKeyBytes = 32;
inline constexpr size_t kMaxRecordBytes = size_t(64) << 10; ///< of the bytes in it

class Sealer {
public:
  explicit Sealer(std::string key);
  /// Appends a record of `bytes`, kMaxRecordBytes at most, to `to`.
  void seal(llvm::StringRef bytes, std::string &to);

private:
  std::string key_;
  uint64_t next_ = 0; ///< number
};

class Opener {
public:
  explicit Opener(std::string key);
  /// Takes bytes as they come, and appends those of whole records to `to`. BadInput for what is no
  /// record of the stream; it stays failed. Never holds more than a record that has not come whole.
  Status feed(llvm::StringRef bytes, std::string &to);

private:
  Status open(llvm::StringRef record, std::string &to);
  std::string key_, pending_;
  uint64_t next_ = 0;
  Status failure_;
};

} // namespace braid
