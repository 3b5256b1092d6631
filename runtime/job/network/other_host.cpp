//===- runtime/job/network/other_host.cpp -----------------------------------------------------===//

#include "runtime/job/network/other_host.h"

#include "ir/failure.h"
#include "runtime/job/network/host_zero.h"

#include <algorithm>
#include <thread>

namespace braid {

using namespace std::chrono_literals;

namespace {

/// For the first word of host 0. The network may take seconds for a message; many unauthenticated
/// peers may have thrown this one out.
constexpr auto kForAttempt = 15s;
constexpr auto kBetweenAttempts = 100ms;

/// Once it has been asked, this host goes on until the deadline: host 0 may have let it in, and
/// would take its going for its death. `hasAnswer`: host 0 has let it in, or has said why not, and
/// will not say anything else.
Result<JoinedHost> attempt(const TcpAddress &at, const std::string &whose,
                           const OtherHostOptions &options, Deadline deadline, bool &hasAnswer) {
  SecureStream stream = BRAID_TRY(connectAuthenticated(
      at, whose, options.secret, options.context, static_cast<uint32_t>(options.host),
      std::min(deadline, deadlineIn(kForAttempt)), deadline));
  std::string address = addressOfThisEnd(stream.descriptor());
  HostLink link(std::move(stream));
  link.send(
      {.kind = FrameKind::HostHello, .body = HostHello{options.hosts, options.ranks}.encode()});
  std::optional<Frame> frame;
  while (!frame) {
    // Who is refused hears why, and then the end of the connection.
    frame = BRAID_TRY(link.receiveFirst());
    if (!frame && std::chrono::steady_clock::now() >= deadline)
      return timedOut("host 0 did not answer in time");
    pollfd entry{link.descriptor(), POLLIN, 0};
    if (!frame)
      poll(&entry, 1, 20);
  }
  hasAnswer = true;
  if (frame->kind == FrameKind::HostAbort)
    return BRAID_TRY(decodeCause(frame->body, options.ranks)).status;
  if (frame->kind != FrameKind::HostWelcome)
    return peerFailed("expected a welcome from host 0, got another message");
  return JoinedHost{std::move(link), std::move(address)};
}

/// Nobody listens yet, it was crowded out, or it does not let in who has another secret.
bool isWorthAnotherAttempt(const Status &status) {
  return status.code() == StatusCode::PeerFailed || status.code() == StatusCode::TimedOut;
}

} // namespace

Result<JoinedHost> joinHostZero(const TcpAddress &at, const OtherHostOptions &options,
                                Deadline deadline) {
  const std::string whose = fmt::format("host 0 at {}", textOf(at));
  std::string reason;
  for (;;) {
    bool hasAnswer = false;
    auto joined = attempt(at, whose, options, deadline, hasAnswer);
    if (hasAnswer || !isWorthAnotherAttempt(joined.status()))
      return joined;
    const auto now = std::chrono::steady_clock::now();
    // An attempt that the deadline cut off only says so.
    if (reason.empty() || now < deadline)
      reason = joined.status().message();
    if (now + kBetweenAttempts >= deadline)
      return timedOut("expected {} to let {} in, got: {}", whose,
                      nameHost(options.host, options.ranks / options.hosts), reason);
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

OtherHost::OtherHost(HostLink link, JobMemory &memory, OtherHostOptions options)
    : link_(std::move(link)), memory_(memory), options_(std::move(options)),
      perHost_(memory.ranksPerHost()) {}

OtherHost::~OtherHost() {
  if (!link_)
    return;
  propose();
  link_->disconnect();
  // Nobody waits for this host any more, but whoever does not read keeps it only for a moment.
  for (const Deadline giveUp = deadlineIn(kForDisconnect);
       !link_->hasEnded() && Clock::now() < giveUp;) {
    pollfd entry{link_->descriptor(), link_->wantedEvents(), 0};
    poll(&entry, 1, 20);
  }
}

void OtherHost::addDescriptors(std::vector<pollfd> &events) {
  events.push_back({link_ ? link_->descriptor() : -1, link_ ? link_->wantedEvents() : short(0), 0});
}

void OtherHost::serve(llvm::ArrayRef<pollfd> events) {
  if (link_ && ((!events.empty() && events[0].revents != 0) || link_->hasUnread()))
    serveLink();
  if (link_)
    lookAtClocks();
  if (link_)
    propose();
}

void OtherHost::serveLink() {
  link_->flush();
  std::vector<Frame> frames;
  Status status = link_->receive(frames);
  for (const Frame &frame : frames) {
    if (Status wrong = handle(frame); !wrong.isOk())
      return endWith(wrong.annotated("host 0"));
    if (!link_)
      return;
  }
  if (!status.isOk())
    endWith(status.code() == StatusCode::PeerFailed
                ? peerFailed("rank 0, which hosted the meeting, is gone")
                : status.annotated("host 0"));
}

/// Host 0 is out of reach: what has not been decided is decided here. If it only stood still, it
/// hears why when it goes on.
void OtherHost::endWith(const Status &cause) {
  memory_.abort({cause, 0});
  memory_.decideHere();
  if (std::optional<JobCause> first = memory_.cause())
    link_->send({.kind = FrameKind::HostAbort, .body = encodeCause(*first)});
  link_.reset();
}

Status OtherHost::handle(const Frame &frame) {
  switch (frame.kind) {
  case FrameKind::HostGathered: {
    auto gathered = BRAID_TRY(decodeGathered(frame, static_cast<size_t>(memory_.ranks())));
    if (gathered.sequence != awaited_)
      return badInput("expected no parts of all-gather {}, got some", gathered.sequence);
    awaited_.reset();
    if (gathered.step == 0 || memory_.commit(gathered.step))
      gathered_ = std::move(gathered);
    return Status::ok();
  }
  case FrameKind::HostAbort:
    memory_.abortDecided(BRAID_TRY(decodeCause(frame.body, memory_.ranks())));
    return Status::ok();
  case FrameKind::HostSlots:
    return applySlots(frame.body, memory_, -memory_.network().clockOffsetNs,
                      [&](int64_t rank) { return rank / perHost_ != options_.host; });
  case FrameKind::HostPong:
    handlePong(BRAID_TRY(HostPing::decode(frame.body)));
    return Status::ok();
  case FrameKind::Disconnect:
    // Host 0 is done. So are all others, or they are told by what waits for it.
    link_.reset();
    memory_.decideHere();
    if (awaited_)
      memory_.abort({peerFailed("rank 0 left before the others were done"), 0});
    return Status::ok();
  default:
    return badInput("expected a message of host 0, got kind {}", static_cast<int>(frame.kind));
  }
}

void OtherHost::handlePong(const HostPing &pong) {
  if (pong.sentNs != pingedNs_)
    return;
  const uint64_t now = monotonicNs();
  latestNs_ = now - pong.sentNs;
  pingedNs_.reset();
  JobMemory::Network network = memory_.network();
  if (latestNs_ < shortestNs_) {
    shortestNs_ = latestNs_;
    network.clockOffsetNs = static_cast<int64_t>(pong.otherNs - (pong.sentNs + latestNs_ / 2));
    network.clockErrorNs = latestNs_ / 2;
  }
  memory_.setNetwork(network);
}

void OtherHost::bring(GatheredParts parts) {
  if (!link_)
    return (void)memory_.abort({peerFailed("rank 0 left before the others were done"), 0});
  awaited_ = parts.sequence;
  link_->send(encodeGathered(FrameKind::HostGather, parts));
}

std::optional<GatheredParts> OtherHost::takeGathered() { return std::exchange(gathered_, {}); }

void OtherHost::lookAtClocks() {
  const Clock::time_point now = Clock::now();
  const uint64_t pingAge = pingedNs_ ? monotonicNs() - *pingedNs_ : 0;
  JobMemory::Network network = memory_.network();
  network.roundTripNs = std::max(latestNs_, pingAge);
  memory_.setNetwork(network);
  if (link_->isSilentFor(options_.silence))
    return endWith(timedOut(
        "host 0: nothing was heard from it for {} s, {}",
        static_cast<double>(options_.silence.count()) / 1000,
        isAcknowledged(link_->descriptor())
            ? "though it takes what is sent: rank 0 stands still"
            : "and it takes nothing that is sent: the network is cut, or the host is down"));
  if (now >= nextSlots_)
    sendSlots(now);
}

/// Nothing more as long as host 0 does not read.
void OtherHost::sendSlots(Clock::time_point now) {
  nextSlots_ = now + slotsPeriod(memory_.ranks());
  if (link_->hasUnsent())
    return;
  Frame frame{.kind = FrameKind::HostSlots};
  const JobMemory::Network network = memory_.network();
  appendSlots(memory_, options_.host * perHost_, perHost_, network.clockOffsetNs, frame.body);
  link_->send(frame);
  if (!pingedNs_)
    pingedNs_ = monotonicNs();
  // A ping without an answer is told again, for the time that it has taken.
  link_->send(
      {.kind = FrameKind::HostPing, .body = HostPing{*pingedNs_, network.roundTripNs}.encode()});
}

void OtherHost::propose() {
  if (isProposed_)
    return;
  std::optional<JobCause> proposal = memory_.proposal();
  if (!proposal)
    return;
  isProposed_ = true;
  link_->send({.kind = FrameKind::HostAbort, .body = encodeCause(*proposal)});
}

} // namespace braid
