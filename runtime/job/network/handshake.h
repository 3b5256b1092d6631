//===- runtime/job/network/handshake.h - two processes prove that they know a secret ----------===//
//
// Who accepts a connection, the server, asks; who made it, the client, answers first, so that a
// unauthenticated peer learns nothing but a random number:
//
//   server    32 random bytes
//   client    "braid001", 32 random bytes, its number (4 bytes), its proof (32 bytes)
//   server    its proof (32 bytes)
//
// A proof is the authentication code, with the secret as its key, of the role, the context that
// both have to agree on (job and purpose), both random texts and the number. Whoever repeats what
// it has heard is asked for another one. Codes for two more roles are the keys of the records that
// follow, one for each direction: see sealed_stream.h.
//
// What is here knows bytes only, so that it can be fuzzed; sockets are elsewhere.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace braid {

inline constexpr size_t kChallengeBytes = 32, kProofBytes = 32;
inline constexpr size_t kHandshakeAnswerBytes = 8 + kChallengeBytes + 4 + kProofBytes;

/// Of the records of one connection.
struct StreamKeys {
  std::string sends, receives;
};

/// The server's side of one connection.
class ServerHandshake {
public:
  /// `secret` and `context` as the client has them.
  ServerHandshake(std::string secret, std::string context);
  /// What the server says first.
  const std::string &challenge() const { return challenge_; }

  /// A client that has proved that it knows the secret.
  struct Proved {
    uint32_t number = 0; ///< the client's
    std::string proof;   ///< what the server says next
    StreamKeys keys;
    std::string rest; ///< what has come after the client's answer
  };
  /// Takes bytes as they come: nothing while some are missing. BadInput once they are no answer of
  /// somebody who knows the secret. Never holds more than an answer.
  Result<std::optional<Proved>> feed(llvm::StringRef bytes);

private:
  std::string secret_, context_, challenge_, pending_;
};

/// The client's side.
class ClientHandshake {
public:
  ClientHandshake(std::string secret, std::string context, uint32_t number);
  /// What the client says to the server's challenge, of kChallengeBytes.
  std::string answer(llvm::StringRef challenge);
  /// The keys, if `proof`, of kProofBytes, is that of a server that knows the secret; else
  /// BadInput.
  Result<StreamKeys> check(llvm::StringRef proof) const;

private:
  std::string secret_, context_, challenge_, own_;
  uint32_t number_;
};

} // namespace braid
