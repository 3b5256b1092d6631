//===- runtime/job/network/sealed_stream.cpp --------------------------------------------------===//

#include "runtime/job/network/sealed_stream.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/frame.h"

#include <sodium.h>

#include <cassert>

namespace braid {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kTagBytes = crypto_aead_chacha20poly1305_ietf_ABYTES;
static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == kStreamKeyBytes);

const unsigned char *bytesOf(llvm::StringRef text) {
  return reinterpret_cast<const unsigned char *>(text.data());
}

/// Never used twice with one key: a key is of one direction of one connection.
std::string nonceOf(uint64_t number) {
  std::string nonce;
  append(nonce, number);
  nonce.resize(crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
  return nonce;
}

} // namespace

Sealer::Sealer(std::string key) : key_(std::move(key)) { assert(key_.size() == kStreamKeyBytes); }

void Sealer::seal(llvm::StringRef bytes, std::string &to) {
  assert(bytes.size() <= kMaxRecordBytes);
  std::string length;
  append(length, static_cast<uint32_t>(bytes.size() + kTagBytes));
  to += length;
  const size_t at = to.size();
  to.resize(at + bytes.size() + kTagBytes);
  crypto_aead_chacha20poly1305_ietf_encrypt(
      reinterpret_cast<unsigned char *>(&to[at]), nullptr, bytesOf(bytes), bytes.size(),
      bytesOf(length), length.size(), nullptr, bytesOf(nonceOf(next_++)), bytesOf(key_));
}

Opener::Opener(std::string key) : key_(std::move(key)) { assert(key_.size() == kStreamKeyBytes); }

Status Opener::feed(llvm::StringRef bytes, std::string &to) {
  if (!failure_.isOk())
    return failure_;
  pending_ += bytes;
  size_t used = 0;
  while (failure_.isOk() && pending_.size() - used >= kLengthBytes) {
    const llvm::StringRef rest = llvm::StringRef(pending_).drop_front(used);
    const size_t length = llvm::support::endian::read32le(rest.data());
    if (length < kTagBytes || length > kMaxRecordBytes + kTagBytes) {
      failure_ =
          badInput("expected a record of at most {} bytes, got one of {}", kMaxRecordBytes, length);
      break;
    }
    if (rest.size() < kLengthBytes + length)
      break;
    failure_ = open(rest.take_front(kLengthBytes + length), to);
    used += kLengthBytes + length;
  }
  pending_.erase(0, used);
  return failure_;
}

Status Opener::open(llvm::StringRef record, std::string &to) {
  const llvm::StringRef sealed = record.drop_front(kLengthBytes);
  const size_t at = to.size();
  to.resize(at + sealed.size() - kTagBytes);
  if (crypto_aead_chacha20poly1305_ietf_decrypt(reinterpret_cast<unsigned char *>(&to[at]), nullptr,
                                                nullptr, bytesOf(sealed), sealed.size(),
                                                bytesOf(record), kLengthBytes,
                                                bytesOf(nonceOf(next_++)), bytesOf(key_)) == 0)
    return Status::ok();
  to.resize(at);
  return badInput("expected a record of the other process, got one that was changed on its way");
}

} // namespace braid
