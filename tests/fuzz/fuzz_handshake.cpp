//===- tests/fuzz/fuzz_handshake.cpp - any bytes, as what somebody says who connects ----------===//

#include "runtime/job/network/handshake.h"
#include "tests/fuzz/require.h"

#include <cstdlib>

namespace braid {
namespace {

const std::string kKnown = "a secret of some bytes", kPurpose = "job and purpose";

/// What becomes of `bytes` in pieces of `step`.
enum class Outcome { Waits, Refused, Proved };
Outcome feed(ServerHandshake &server, llvm::StringRef bytes, size_t step,
             ServerHandshake::Proved *proved = nullptr) {
  while (!bytes.empty()) {
    auto result = server.feed(bytes.take_front(step));
    bytes = bytes.drop_front(std::min(step, bytes.size()));
    if (!result) {
      // It stays with its verdict.
      require(result.status().code() == StatusCode::BadInput && !server.feed(bytes));
      return Outcome::Refused;
    }
    if (*result) {
      if (proved)
        *proved = std::move(**result);
      return Outcome::Proved;
    }
  }
  return Outcome::Waits;
}

/// Nobody gets in by chance, however the bytes come.
void checkGarbage(llvm::StringRef bytes) {
  ServerHandshake whole(kKnown, kPurpose), split(kKnown, kPurpose);
  const Outcome outcome = feed(whole, bytes, bytes.size() + 1);
  require(outcome != Outcome::Proved && outcome == feed(split, bytes, 3));
  require(outcome == Outcome::Refused || bytes.size() < kHandshakeAnswerBytes);
  const ClientHandshake client(kKnown, kPurpose, 1);
  require(!client.check(bytes) && !client.check(bytes.take_front(kProofBytes)));
}

/// `text`, changed by `mask`, which is as long at most.
std::string changed(std::string text, llvm::StringRef mask) {
  for (size_t i = 0; i < std::min(mask.size(), text.size()); ++i)
    text[i] = static_cast<char>(text[i] ^ mask[i]);
  return text;
}

bool isZero(llvm::StringRef mask) { return mask.find_first_not_of('\0') == llvm::StringRef::npos; }

/// A good answer gets in with what follows it, and a changed one does not.
void checkAnswer(llvm::StringRef bytes) {
  const uint32_t number = static_cast<uint8_t>(bytes.front());
  const size_t step = 1 + number % (kHandshakeAnswerBytes + 5);
  const llvm::StringRef mask = bytes.drop_front().take_front(kHandshakeAnswerBytes);
  ServerHandshake server(kKnown, kPurpose);
  ClientHandshake client(kKnown, kPurpose, number);
  const std::string answer = changed(client.answer(server.challenge()), mask);
  ServerHandshake::Proved proved;
  const Outcome outcome = feed(server, answer + "rest", step, &proved);
  require(outcome == (isZero(mask) ? Outcome::Proved : Outcome::Refused));
  if (outcome != Outcome::Proved)
    return;
  require(proved.number == number &&
          llvm::StringRef("rest").take_front(proved.rest.size()) == proved.rest);
  const auto keys = client.check(proved.proof);
  require(keys && keys->sends == proved.keys.receives && keys->receives == proved.keys.sends);
  const llvm::StringRef proofMask = bytes.drop_front(1 + mask.size()).take_front(kProofBytes);
  require(client.check(changed(proved.proof, proofMask)).isOk() == isZero(proofMask));
}

} // namespace
} // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef bytes(reinterpret_cast<const char *>(data), size);
  braid::checkGarbage(bytes);
  if (!bytes.empty())
    braid::checkAnswer(bytes);
  return 0;
}
