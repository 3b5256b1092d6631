//===- runtime/job/network/door.cpp -----------------------------------------------------------===//

#include "runtime/job/network/door.h"

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
constexpr std::chrono::seconds kForStranger{10};
/// Of accepting, without a descriptor for who comes.
constexpr std::chrono::milliseconds kBeforeNextTry{10};

/// Into the buffer of a new connection, which has room; whoever does not hear it is gone.
void say(const FileDescriptor &socket, const std::string &text) {
  (void)!::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Most of the descriptors that this process may have are for the job.
size_t mostStrangers() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return kMaxStrangers;
  return std::clamp<size_t>(limit.rlim_cur / 8, 1, kMaxStrangers);
}

bool hasNoDescriptorLeft() {
  return errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
}

} // namespace

Door::Door(TcpListener listener, std::string secret, std::string context)
    : listener_(std::move(listener)), secret_(std::move(secret)), context_(std::move(context)),
      mostStrangers_(mostStrangers()) {}

void Door::addDescriptors(std::vector<pollfd> &events) const {
  // A negative descriptor is skipped.
  const bool accepts = std::chrono::steady_clock::now() >= acceptTime_;
  events.push_back({accepts ? listener_.socket.get() : -1, POLLIN, 0});
  for (const Stranger &stranger : strangers_)
    events.push_back({stranger.socket.get(), POLLIN, 0});
}

std::vector<Door::Guest> Door::serve(llvm::ArrayRef<pollfd> events) {
  std::vector<Guest> guests;
  const Deadline now = std::chrono::steady_clock::now();
  std::vector<Stranger> strangers = std::exchange(strangers_, {});
  for (size_t i = 0; i < strangers.size(); ++i)
    if ((events[i + 1].revents == 0 || serve(strangers[i], guests)) && now < strangers[i].deadline)
      strangers_.push_back(std::move(strangers[i]));
  if (events[0].revents != 0)
    accept();
  return guests;
}

void Door::accept() {
  // Not without end: others want to be served, too.
  for (size_t i = 0; i < kMaxStrangers; ++i) {
    FileDescriptor socket = acceptFrom(listener_);
    if (!socket.isValid()) {
      // Without a number to give, a stranger has to go, and accepting has to wait.
      if (hasNoDescriptorLeft()) {
        acceptTime_ = deadlineIn(kBeforeNextTry);
        if (!strangers_.empty())
          std::swap(anyStranger(), strangers_.back()), strangers_.pop_back();
      }
      return;
    }
    Stranger stranger{std::move(socket), ServerHandshake(secret_, context_),
                      deadlineIn(kForStranger)};
    say(stranger.socket, stranger.handshake.challenge());
    if (strangers_.size() < mostStrangers_)
      strangers_.push_back(std::move(stranger));
    else
      anyStranger() = std::move(stranger);
  }
}

Door::Stranger &Door::anyStranger() {
  const std::string drawn = randomBytes(4);
  return strangers_[llvm::support::endian::read32le(drawn.data()) % strangers_.size()];
}

/// True if it stays a stranger.
bool Door::serve(Stranger &stranger, std::vector<Guest> &guests) const {
  char bytes[kHandshakeAnswerBytes + 512];
  const ssize_t count = ::recv(stranger.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return true;
  if (count <= 0)
    return false;
  auto proved = stranger.handshake.feed({bytes, static_cast<size_t>(count)});
  if (!proved || !*proved)
    return proved.isOk();
  say(stranger.socket, (*proved)->proof);
  guests.push_back({(*proved)->number, SecureStream(std::move(stranger.socket), (*proved)->keys,
                                                    std::move((*proved)->rest))});
  return false;
}

void Door::close() {
  listener_.socket.reset();
  strangers_.clear();
}

Result<SecureStream> knockAt(const TcpAddress &at, const std::string &whose,
                             const std::string &secret, const std::string &context, uint32_t number,
                             Deadline toBeAsked, Deadline toBeLetIn) {
  ByteStream stream = BRAID_TRY(ByteStream::connect(at.host, at.port, whose, false, toBeAsked));
  ClientHandshake handshake(secret, context, number);
  const std::string challenge = BRAID_TRY(stream.read(kChallengeBytes, toBeAsked));
  BRAID_TRY(stream.write(handshake.answer(challenge), toBeLetIn));
  const std::string proof = BRAID_TRY(stream.read(kProofBytes, toBeLetIn));
  const StreamKeys keys = BRAID_TRY(handshake.check(proof));
  std::string rest = stream.takeRead();
  return SecureStream(stream.release(), keys, std::move(rest));
}

} // namespace braid
