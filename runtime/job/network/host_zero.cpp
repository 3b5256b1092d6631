//===- runtime/job/network/host_zero.cpp ------------------------------------------------------===//

#include "runtime/job/network/host_zero.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace braid {

using namespace std::chrono_literals;

namespace {

/// For who has come to say which host it is. The network may take seconds for a message.
constexpr auto kForName = 10s;
constexpr auto kBeforeSaying = 5s, kBetweenSayings = 10s;

uint64_t ns(std::chrono::steady_clock::duration time) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(time).count());
}

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

} // namespace

std::chrono::milliseconds slotsPeriod(int64_t ranks) {
  return 100ms + std::chrono::milliseconds(ranks);
}

std::string nameHost(int64_t host, int64_t ranksPerHost) {
  const int64_t first = host * ranksPerHost;
  return ranksPerHost == 1
             ? fmt::format("host {} (rank {})", host, first)
             : fmt::format("host {} (ranks {} to {})", host, first, first + ranksPerHost - 1);
}

HostZero::HostZero(TcpListener listener, JobMemory &memory, HostOptions options)
    : acceptor_(std::move(listener), options.secret, options.context), memory_(memory),
      options_(std::move(options)), perHost_(memory.ranksPerHost()),
      hosts_(static_cast<size_t>(memory.hosts())), parts_(hosts_.size()),
      roundTrips_(hosts_.size()), start_(Clock::now()), nextSlots_(start_),
      nextSaying_(start_ + kBeforeSaying) {}

HostZero::~HostZero() {
  tellAbort();
  for (Host &host : hosts_)
    if (host.link)
      host.link->disconnect();
  // What was committed is on its way to hosts that have yet to read it.
  for (const Deadline giveUp = deadlineIn(kForDisconnect); Clock::now() < giveUp;) {
    std::vector<pollfd> events;
    for (Host &host : hosts_) {
      if (host.link && host.link->hasEnded())
        host.link.reset();
      if (host.link)
        events.push_back({host.link->descriptor(), host.link->wantedEvents(), 0});
    }
    if (events.empty())
      return;
    poll(events.data(), events.size(), 20);
  }
}

std::string HostZero::ranksOf(int64_t host) const { return nameHost(host, perHost_); }

// -- Waiting. --

void HostZero::addDescriptors(std::vector<pollfd> &events) {
  auto add = [&events](const HostLink *link) {
    events.push_back({link ? link->descriptor() : -1, link ? link->wantedEvents() : short(0), 0});
  };
  for (const Host &host : hosts_)
    add(host.link ? &*host.link : nullptr);
  for (const Newcomer &newcomer : newcomers_)
    add(&newcomer.link);
  acceptor_.addDescriptors(events);
}

void HostZero::serve(llvm::ArrayRef<pollfd> events) {
  if (!events.empty()) {
    for (size_t host = 0; host < hosts_.size(); ++host)
      if (hosts_[host].link && (events[host].revents != 0 || hosts_[host].link->hasUnread()))
        serveHost(static_cast<int64_t>(host));
    serveNewcomers(events.drop_front(hosts_.size()));
  }
  lookAtClocks();
  tellAbort();
}

// -- Who comes. --

void HostZero::serveNewcomers(llvm::ArrayRef<pollfd> events) {
  const Clock::time_point now = Clock::now();
  std::vector<Newcomer> newcomers = std::exchange(newcomers_, {});
  for (size_t i = 0; i < newcomers.size(); ++i) {
    const bool isThere = events[i].revents != 0 || newcomers[i].link.hasUnread();
    if ((!isThere || serveNewcomer(newcomers[i])) && now < newcomers[i].deadline)
      newcomers_.push_back(std::move(newcomers[i]));
  }
  for (Acceptor::AuthenticatedPeer &peer : acceptor_.serve(events.drop_front(newcomers.size())))
    if (newcomers_.size() < kMaxUnauthenticatedPeers)
      newcomers_.push_back({HostLink(std::move(peer.stream)), peer.number, deadlineIn(kForName)});
}

/// True if it has yet to say who it is.
bool HostZero::serveNewcomer(Newcomer &newcomer) {
  const Result<std::optional<Frame>> frame = newcomer.link.receiveFirst();
  if (!frame || !*frame)
    return frame.isOk();
  if (Status why = whyRefused(newcomer, **frame); !why.isOk())
    refuse(newcomer, why);
  else
    welcome(newcomer);
  return false;
}

Status HostZero::whyRefused(const Newcomer &newcomer, const Frame &frame) const {
  if (std::optional<JobCause> cause = memory_.cause())
    return cause->status;
  if (frame.kind != FrameKind::HostHello)
    return badInput("expected a host to say who it is, got a message of kind {}",
                    static_cast<int>(frame.kind));
  const HostHello hello = BRAID_TRY(HostHello::decode(frame.body));
  if (hello.hosts != memory_.hosts() || hello.ranks != memory_.ranks())
    return badInput("host {} says that there are {} hosts and {} ranks, host 0 says {} and {}",
                    newcomer.host, hello.hosts, hello.ranks, memory_.hosts(), memory_.ranks());
  if (newcomer.host < 1 || newcomer.host >= memory_.hosts())
    return badInput("expected a host from 1 to {}, got host {}", memory_.hosts() - 1,
                    newcomer.host);
  if (hosts_[static_cast<size_t>(newcomer.host)].state != State::Absent)
    return badInput("two processes speak for {}; expected each rank once", ranksOf(newcomer.host));
  return Status::ok();
}

/// It knows the secret, so that it is of this job, which cannot go on with what it says.
void HostZero::refuse(Newcomer &newcomer, const Status &why) {
  const JobCause cause{why, -1};
  if (sequence_ == 1)
    memory_.abort(cause);
  newcomer.link.send({.kind = FrameKind::HostAbort, .body = encodeCause(cause)});
}

void HostZero::welcome(Newcomer &newcomer) {
  Host &host = hosts_[static_cast<size_t>(newcomer.host)];
  host.state = State::There;
  host.link = std::move(newcomer.link);
  host.link->send({.kind = FrameKind::HostWelcome});
}

// -- Hosts. --

void HostZero::serveHost(int64_t number) {
  Host &host = hosts_[static_cast<size_t>(number)];
  host.link->flush();
  std::vector<Frame> frames;
  Status status = host.link->receive(frames);
  for (const Frame &frame : frames) {
    if (Status wrong = handle(number, frame); !wrong.isOk())
      return lose(number, wrong);
    if (!host.link)
      return;
  }
  if (!status.isOk())
    lose(number, status);
}

/// A failure means that the host does not keep to the protocol.
Status HostZero::handle(int64_t host, const Frame &frame) {
  switch (frame.kind) {
  case FrameKind::HostGather:
    return handleGather(host, frame);
  case FrameKind::HostAbort:
    memory_.abort(BRAID_TRY(decodeCause(frame.body, memory_.ranks())));
    return Status::ok();
  case FrameKind::HostSlots:
    return applySlots(frame.body, memory_, 0,
                      [&](int64_t rank) { return rank / perHost_ == host; });
  case FrameKind::HostPing: {
    const HostPing ping = BRAID_TRY(HostPing::decode(frame.body));
    HostLink &link = *hosts_[static_cast<size_t>(host)].link;
    roundTrips_[static_cast<size_t>(host)] = std::min(ping.otherNs, ns(options_.silence));
    // Who does not read asks again.
    if (!link.hasUnsent())
      link.send(
          {.kind = FrameKind::HostPong, .body = HostPing{ping.sentNs, monotonicNs()}.encode()});
    return Status::ok();
  }
  case FrameKind::Disconnect:
    letGo(host);
    return Status::ok();
  default:
    return badInput("expected a message of a host, got kind {}", static_cast<int>(frame.kind));
  }
}

Status HostZero::handleGather(int64_t host, const Frame &frame) {
  std::optional<GatheredParts> &parts = parts_[static_cast<size_t>(host)];
  if (parts || frame.sequence != sequence_)
    return badInput("expected parts of all-gather {}, got some of {}", sequence_, frame.sequence);
  parts = BRAID_TRY(decodeGathered(frame, static_cast<size_t>(perHost_)));
  finishGather();
  return Status::ok();
}

void HostZero::bring(GatheredParts parts) {
  parts_.front() = std::move(parts);
  finishGather();
}

std::optional<GatheredParts> HostZero::takeGathered() { return std::exchange(gathered_, {}); }

/// If all have come. If a host has gone that has brought nothing, nobody else may wait for it.
void HostZero::finishGather() {
  for (size_t host = 0; host < hosts_.size(); ++host)
    if (!parts_[host] && hosts_[host].state == State::Left)
      memory_.abort(
          {peerFailed("{} left before the others were done", ranksOf(static_cast<int64_t>(host))),
           static_cast<int64_t>(host) * perHost_});
  if (!llvm::all_of(parts_, [](const auto &parts) { return parts.has_value(); }))
    return;
  GatheredParts all{.sequence = sequence_++, .step = parts_.front()->step};
  size_t bytes = 8;
  for (std::optional<GatheredParts> &parts : parts_) {
    all.step = std::min(all.step, parts->step);
    for (std::string &part : parts->parts) {
      bytes += 4 + part.size();
      all.parts.push_back(std::move(part));
    }
    parts.reset();
  }
  acceptor_.close(); // nobody else is to come
  newcomers_.clear();
  if (bytes > kMaxBody)
    return (void)memory_.abort(
        {badInput("expected at most {} bytes from all ranks together, got {}", kMaxBody, bytes)});
  // Then it counts, whatever happens to whom.
  if (all.step != 0 && !memory_.commit(all.step))
    return;
  const Frame frame = encodeGathered(FrameKind::HostGathered, all);
  for (Host &host : hosts_)
    if (host.link)
      host.link->send(frame);
  gathered_ = std::move(all);
}

/// It has disconnected.
void HostZero::letGo(int64_t number) {
  Host &host = hosts_[static_cast<size_t>(number)];
  host.state = State::Left;
  host.link.reset();
  parts_[static_cast<size_t>(number)].reset(); // its ranks would not hear that they count
  for (int64_t rank = number * perHost_; rank < (number + 1) * perHost_; ++rank)
    memory_.slot(rank).state.store(static_cast<uint32_t>(RankState::Left),
                                   std::memory_order_relaxed);
  if (llvm::any_of(parts_, [](const auto &parts) { return parts.has_value(); }))
    finishGather();
}

void HostZero::lose(int64_t number, const Status &why) {
  Host &host = hosts_[static_cast<size_t>(number)];
  const int64_t first = number * perHost_;
  const std::string text =
      why.code() == StatusCode::PeerFailed
          ? fmt::format("rank {}, which hosted the meeting of {}, is gone", first, ranksOf(number))
          : fmt::format("{}: {}", ranksOf(number), why.message());
  const StatusCode code = why.code() == StatusCode::TimedOut ? why.code() : StatusCode::PeerFailed;
  // The cause first: whoever is told that a rank is dead can see why.
  memory_.abort({Status(code, text), first});
  host.state = State::Lost;
  tellAbort(); // this one, too: if it only stood still, it hears why when it goes on
  host.link.reset();
  for (int64_t rank = first; rank < first + perHost_; ++rank)
    memory_.slot(rank).state.store(static_cast<uint32_t>(RankState::Dead),
                                   std::memory_order_relaxed);
}

// -- Clocks. --

void HostZero::lookAtClocks() {
  const Clock::time_point now = Clock::now();
  lookForMissing(now);
  uint64_t roundTrip = 0;
  for (size_t host = 1; host < hosts_.size(); ++host) {
    if (!hosts_[host].link)
      continue;
    const HostLink &link = *hosts_[host].link;
    const auto silent = now - link.heard();
    roundTrip = std::max({roundTrip, roundTrips_[host], ns(silent)});
    if (link.isSilentFor(options_.silence))
      lose(static_cast<int64_t>(host),
           timedOut("nothing was heard from it for {} s, {}", seconds(options_.silence),
                    isAcknowledged(link.descriptor())
                        ? fmt::format("though it takes what is sent: rank {} stands still",
                                      static_cast<int64_t>(host) * perHost_)
                        : "and it takes nothing that is sent: the network is cut, or the host is "
                          "down"));
  }
  memory_.setNetwork({.roundTripNs = roundTrip});
  if (now >= nextSlots_)
    sendSlots(now);
}

/// Hosts may come minutes apart: whoever waits is told for whom.
void HostZero::lookForMissing(Clock::time_point now) {
  std::vector<std::string> missing;
  for (size_t host = 1; host < hosts_.size(); ++host)
    if (hosts_[host].state == State::Absent)
      missing.push_back(ranksOf(static_cast<int64_t>(host)));
  if (missing.empty() || memory_.isAborted())
    return;
  if (now >= start_ + options_.joinTimeout)
    memory_.abort({timedOut("expected {} hosts to come within {} s, got all but {}", hosts_.size(),
                            seconds(options_.joinTimeout), fmt::join(missing, ", ")),
                   -1});
  else if (now >= nextSaying_ && options_.say) {
    nextSaying_ = now + kBetweenSayings;
    options_.say(
        fmt::format("waiting at {} for {}", textOf(acceptor_.address()), fmt::join(missing, ", ")));
  }
}

/// To each host, of all others. Who does not read what it got before gets no more.
void HostZero::sendSlots(Clock::time_point now) {
  nextSlots_ = now + slotsPeriod(memory_.ranks());
  std::vector<std::string> bodies(hosts_.size());
  for (size_t of = 0; of < hosts_.size(); ++of)
    appendSlots(memory_, static_cast<int64_t>(of) * perHost_, perHost_, 0, bodies[of]);
  for (size_t to = 1; to < hosts_.size(); ++to) {
    if (!hosts_[to].link || hosts_[to].link->hasUnsent())
      continue;
    Frame frame{.kind = FrameKind::HostSlots};
    for (size_t of = 0; of < hosts_.size(); ++of)
      if (of != to)
        frame.body += bodies[of];
    hosts_[to].link->send(frame);
  }
}

void HostZero::tellAbort() {
  if (isAbortTold_ || !memory_.isAborted())
    return;
  isAbortTold_ = true;
  const Frame frame{.kind = FrameKind::HostAbort, .body = encodeCause(*memory_.cause())};
  for (Host &host : hosts_)
    if (host.link)
      host.link->send(frame);
}

} // namespace braid
