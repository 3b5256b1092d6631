//===- runtime/job/network/acceptor.cpp -------------------------------------------------------===//

#include "runtime/job/network/acceptor.h"

#include "ir/failure.h"
#include "runtime/job/network/byte_stream.h"
#include "runtime/job/network/secret.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/resource.h>
#include <sys/socket.h>

namespace braid {
namespace {

/// The network may take seconds for a message.
constexpr std::chrono::seconds kForProof{10};
/// Of accepting, without a descriptor for who comes.
constexpr std::chrono::milliseconds kBeforeNextTry{10};

/// Into the buffer of a new connection, which has room; whoever does not hear it is gone.
void say(const FileDescriptor &socket, const std::string &text) {
  (void)!::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Most of the descriptors that this process may have are for the job.
size_t mostUnauthenticated() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return kMaxUnauthenticatedPeers;
  return std::clamp<size_t>(limit.rlim_cur / 8, 1, kMaxUnauthenticatedPeers);
}

bool hasNoDescriptorLeft() {
  return errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
}

} // namespace

Acceptor::Acceptor(TcpListener listener, std::string secret, std::string context)
    : listener_(std::move(listener)), secret_(std::move(secret)), context_(std::move(context)),
      mostUnauthenticated_(mostUnauthenticated()) {}

void Acceptor::addDescriptors(std::vector<pollfd> &events) const {
  // A negative descriptor is skipped.
  const bool accepts = std::chrono::steady_clock::now() >= acceptTime_;
  events.push_back({accepts ? listener_.socket.get() : -1, POLLIN, 0});
  for (const UnauthenticatedPeer &peer : unauthenticated_)
    events.push_back({peer.socket.get(), POLLIN, 0});
}

std::vector<Acceptor::AuthenticatedPeer> Acceptor::serve(llvm::ArrayRef<pollfd> events) {
  std::vector<AuthenticatedPeer> authenticated;
  const Deadline now = std::chrono::steady_clock::now();
  std::vector<UnauthenticatedPeer> waiting = std::exchange(unauthenticated_, {});
  for (size_t i = 0; i < waiting.size(); ++i)
    if ((events[i + 1].revents == 0 || serve(waiting[i], authenticated)) &&
        now < waiting[i].deadline)
      unauthenticated_.push_back(std::move(waiting[i]));
  if (events[0].revents != 0)
    accept();
  return authenticated;
}

void Acceptor::accept() {
  // Not without end: others want to be served, too.
  for (size_t i = 0; i < kMaxUnauthenticatedPeers; ++i) {
    FileDescriptor socket = acceptFrom(listener_);
    if (!socket.isValid()) {
      // Without a number to give, one of them has to go, and accepting has to wait.
      if (hasNoDescriptorLeft()) {
        acceptTime_ = deadlineIn(kBeforeNextTry);
        if (!unauthenticated_.empty())
          std::swap(anyOfThem(), unauthenticated_.back()), unauthenticated_.pop_back();
      }
      return;
    }
    UnauthenticatedPeer peer{std::move(socket), ServerHandshake(secret_, context_),
                             deadlineIn(kForProof)};
    say(peer.socket, peer.handshake.challenge());
    if (unauthenticated_.size() < mostUnauthenticated_)
      unauthenticated_.push_back(std::move(peer));
    else
      anyOfThem() = std::move(peer);
  }
}

Acceptor::UnauthenticatedPeer &Acceptor::anyOfThem() {
  const std::string drawn = randomBytes(4);
  return unauthenticated_[llvm::support::endian::read32le(drawn.data()) % unauthenticated_.size()];
}

/// True if it stays unauthenticated.
bool Acceptor::serve(UnauthenticatedPeer &peer,
                     std::vector<AuthenticatedPeer> &authenticated) const {
  char bytes[kHandshakeAnswerBytes + 512];
  const ssize_t count = ::recv(peer.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return true;
  if (count <= 0)
    return false;
  auto proved = peer.handshake.feed({bytes, static_cast<size_t>(count)});
  if (!proved || !*proved)
    return proved.isOk();
  say(peer.socket, (*proved)->proof);
  authenticated.push_back({(*proved)->number, SecureStream(std::move(peer.socket), (*proved)->keys,
                                                           std::move((*proved)->rest))});
  return false;
}

void Acceptor::close() {
  listener_.socket.reset();
  unauthenticated_.clear();
}

Result<SecureStream> connectAuthenticated(const TcpAddress &at, const std::string &whose,
                                          const std::string &secret, const std::string &context,
                                          uint32_t number, Deadline toBeAsked, Deadline toBeLetIn) {
  ByteStream stream = BRAID_TRY(ByteStream::connect(at.host, at.port, whose, false, toBeAsked));
  ClientHandshake handshake(secret, context, number);
  const std::string challenge = BRAID_TRY(stream.read(kChallengeBytes, toBeAsked));
  BRAID_TRY(stream.write(handshake.answer(challenge), toBeLetIn));
  const Result<std::string> read = stream.read(kProofBytes, toBeLetIn);
  if (!read && read.status().code() == StatusCode::PeerFailed)
    return peerFailed("{}: it may know another secret, or name of the job",
                      read.status().message());
  const std::string proof = BRAID_TRY(read);
  const StreamKeys keys = BRAID_TRY(handshake.check(proof));
  std::string rest = stream.takeRead();
  return SecureStream(stream.release(), keys, std::move(rest));
}

} // namespace braid
