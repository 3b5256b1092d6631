//===- runtime/job/network/handshake.cpp ------------------------------------------------------===//

#include "runtime/job/network/handshake.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/frame.h"
#include "runtime/job/network/secret.h"

namespace braid {
namespace {

constexpr std::string_view kMagic = "braid001";

/// What both sides of a connection have in common.
struct Said {
  llvm::StringRef secret, context, server, client;
  uint32_t number;

  /// Every text after its length, so that none can stand for two others.
  std::string code(llvm::StringRef role) const {
    std::string text;
    for (llvm::StringRef part : {role, context, server, client}) {
      append(text, static_cast<uint32_t>(part.size()));
      text += part;
    }
    append(text, number);
    return authenticationCode(secret.str(), text);
  }
  std::string proofOfClient() const { return code("client"); }
  std::string proofOfServer() const { return code("server"); }
  std::string keyToServer() const { return code("key to server"); }
  std::string keyToClient() const { return code("key to client"); }
};

} // namespace

ServerHandshake::ServerHandshake(std::string secret, std::string context)
    : secret_(std::move(secret)), context_(std::move(context)),
      challenge_(randomBytes(kChallengeBytes)) {}

Result<std::optional<ServerHandshake::Proved>> ServerHandshake::feed(llvm::StringRef bytes) {
  const llvm::StringRef taken = bytes.take_front(kHandshakeAnswerBytes - pending_.size());
  pending_ += taken;
  const llvm::StringRef answer = pending_;
  if (!kMagic.starts_with(std::string_view(answer.take_front(kMagic.size()))))
    return badInput("expected a process of braid, got something else");
  if (answer.size() < kHandshakeAnswerBytes)
    return std::optional<Proved>();
  const llvm::StringRef client = answer.substr(kMagic.size(), kChallengeBytes);
  const uint32_t number =
      llvm::support::endian::read32le(answer.data() + kMagic.size() + kChallengeBytes);
  const Said said{secret_, context_, challenge_, client, number};
  if (!areEqualSecrets(answer.take_back(kProofBytes).str(), said.proofOfClient()))
    return badInput("expected a process that knows the job's secret, got one that does not");
  return std::optional(Proved{number,
                              said.proofOfServer(),
                              {said.keyToClient(), said.keyToServer()},
                              bytes.drop_front(taken.size()).str()});
}

ClientHandshake::ClientHandshake(std::string secret, std::string context, uint32_t number)
    : secret_(std::move(secret)), context_(std::move(context)), own_(randomBytes(kChallengeBytes)),
      number_(number) {}

std::string ClientHandshake::answer(llvm::StringRef challenge) {
  challenge_ = challenge.str();
  std::string text = std::string(kMagic) + own_;
  append(text, number_);
  return text + Said{secret_, context_, challenge_, own_, number_}.proofOfClient();
}

Result<StreamKeys> ClientHandshake::check(llvm::StringRef proof) const {
  const Said said{secret_, context_, challenge_, own_, number_};
  if (!areEqualSecrets(proof.str(), said.proofOfServer()))
    return badInput("expected a process that knows the job's secret, got one that does not");
  return StreamKeys{said.keyToServer(), said.keyToClient()};
}

} // namespace braid
