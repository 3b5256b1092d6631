//===- runtime/job/bootstrap/other_hosts.cpp - connects the hosts of a job --------------------===//

#include "runtime/job/bootstrap/other_hosts.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/rendezvous.h"
#include "runtime/job/bootstrap/start_thread.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace braid {

using namespace std::chrono_literals;

namespace {

const std::string kDone = "done";
/// The polling intervals of the store outside and during an all-gather.
constexpr auto kPauseAtRest = 50ms, kPauseInGather = 2ms;
/// If a poll takes longer than this, the thread was stopped and may have missed heartbeats.
constexpr auto kLongestLook = 500ms;
constexpr auto kBeforeSaying = 5s, kBetweenSayings = 10s;
/// The time limit for a host to leave; host 0 also waits for the others.
constexpr auto kForLeaving = 1000ms;

/// The heartbeat grows with the number of ranks, and so does its period.
std::chrono::milliseconds signPeriod(int64_t ranks) {
  return 100ms + std::chrono::milliseconds(ranks);
}

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

} // namespace

std::string nameHost(int64_t host, int64_t ranksPerHost) {
  const int64_t first = host * ranksPerHost;
  return ranksPerHost == 1
             ? fmt::format("host {} (rank {})", host, first)
             : fmt::format("host {} (ranks {} to {})", host, first, first + ranksPerHost - 1);
}

Result<std::unique_ptr<OtherHosts>>
OtherHosts::start(std::unique_ptr<Store> store, JobMemory &memory, OtherHostsOptions options) {
  std::unique_ptr<OtherHosts> others(new OtherHosts(std::move(store), memory, std::move(options)));
  others->id_ = BRAID_TRY(randomName());
  BRAID_TRY(
      startThread(others->thread_, "other hosts", [others = others.get()] { others->run(); }));
  return others;
}

OtherHosts::OtherHosts(std::unique_ptr<Store> store, JobMemory &memory, OtherHostsOptions options)
    : store_(std::move(store)), memory_(memory), options_(std::move(options)),
      lastLook_(Clock::now()), nextSaying_(lastLook_ + kBeforeSaying) {
  for (int64_t host = 0; host < memory.hosts(); ++host)
    if (host != memory.host())
      others_.push_back({host});
}

OtherHosts::~OtherHosts() {
  isEnding_ = true;
  memory_.wake();
  if (thread_.joinable())
    thread_.join();
}

void OtherHosts::run() {
  blockSignals();
  while (!isEnding_) {
    reached_ = communicate();
    if (reached_.code() == StatusCode::BadInput && !memory_.isAborted())
      memory_.abort({reached_, -1});
    lookAtClocks();
    pause();
  }
  leave();
}

void OtherHosts::pause() {
  if (!hasCome(memory_.host()))
    memory_.waitForRanks(round_, kPauseAtRest);
  else
    std::this_thread::sleep_for(isFailed_ || !reached_.isOk() ? kPauseAtRest : kPauseInGather);
}

/// Stops at the first failure; the next call tries again. A proposal is decided before anything
/// else is sent, because this host's state may be wrong.
Status OtherHosts::communicate() {
  BRAID_TRY(introduce());
  if (const Clock::time_point now = Clock::now(); now >= nextSign_ && !memory_.proposal()) {
    BRAID_TRY(giveSign(false));
    nextSign_ = now + signPeriod(memory_.ranks());
    BRAID_TRY(listen());
  }
  if (!isFailed_ && !memory_.proposal())
    BRAID_TRY(sendParts());
  return lookAtRound();
}

std::string OtherHosts::key(const char *what, int64_t number) const {
  return fmt::format("{}{}{}", prefix_, what, number);
}

std::string OtherHosts::nameOf(const Host &host) const {
  return nameHost(host.number, memory_.ranksPerHost());
}

/// Selects the first job of this name in which this host has not taken part.
Status OtherHosts::introduce() {
  if (!prefix_.empty())
    return Status::ok();
  std::string prefix, taken;
  for (int64_t job = 1; taken != id_; ++job) {
    prefix = fmt::format("{}{}/", storePrefix(options_.job), job);
    taken = BRAID_TRY(store_->putIfAbsent(fmt::format("{}is{}", prefix, memory_.host()), id_));
  }
  const std::string shape = fmt::format("{} hosts and {} ranks (version {})", memory_.hosts(),
                                        memory_.ranks(), kHostVersion);
  const std::string first = BRAID_TRY(store_->putIfAbsent(prefix + "shape", shape));
  prefix_ = prefix;
  return first == shape ? Status::ok()
                        : badInput("host {} says that there are {}, another host says {}",
                                   memory_.host(), shape, first);
}

// -- Heartbeats. --

Status OtherHosts::giveSign(bool isLast) {
  return store_->put(key("host", memory_.host()), encodeSign(isLast, memory_));
}

Status OtherHosts::listen() {
  for (Host &host : others_) {
    const auto text =
        host.hasLeft ? std::nullopt : BRAID_TRY(store_->poll(key("host", host.number)));
    if (!text)
      continue;
    const HostSign sign = BRAID_TRY(takeSign(*text, memory_, host.number, host.shiftNs));
    if (sign.sentNs != host.sign)
      host.silent = {};
    host.sign = sign.sentNs;
    host.hasCome = true;
    if (sign.hasLeft)
      noteLeft(host);
  }
  return Status::ok();
}

void OtherHosts::noteLeft(Host &host) {
  host.hasLeft = true;
  const Ranks ranks = memory_.ranksOf(host.number);
  for (int64_t i = 0; i < ranks.count; ++i)
    memory_.slot(ranks.first + i).state.store(RankState::Left, std::memory_order_relaxed);
}

// -- All-gathers. --

/// Returns true if, to this host's knowledge, all ranks of `host` have joined the round.
bool OtherHosts::hasCome(int64_t host) const {
  return memory_.haveCome(memory_.ranksOf(host), round_);
}

std::string OtherHosts::keyOfParts(int64_t host) const {
  return fmt::format("{}.{}", key("parts", host), round_ % 2);
}

Status OtherHosts::sendParts() {
  const int64_t host = memory_.host();
  if (areSent_ || !hasCome(host))
    return Status::ok();
  const std::string text = BRAID_TRY(encodeParts(memory_, round_));
  if (text.size() > kMaxStoreValue)
    return badInput("expected at most {} bytes from all ranks of a host together, got {}",
                    kMaxStoreValue, text.size());
  BRAID_TRY(store_->put(keyOfParts(host), text));
  areSent_ = true;
  return Status::ok();
}

/// Copies the available parts of other hosts' ranks from the store.
Status OtherHosts::readParts() {
  for (const Host &host : others_)
    if (!hasCome(host.number))
      if (const auto text = BRAID_TRY(store_->poll(keyOfParts(host.number))))
        BRAID_TRY(takeParts(*text, memory_, host.number, round_));
  return Status::ok();
}

Status OtherHosts::lookAtRound() {
  if (isFailed_)
    return Status::ok();
  const std::optional<std::string> outcome = BRAID_TRY(decide());
  if (!outcome) {
    abortIfRoundCannotEnd();
    return Status::ok();
  }
  if (*outcome == kDone)
    return finishRound();
  memory_.abortDecided(BRAID_TRY(decodeCause(*outcome, memory_.ranks())));
  isFailed_ = true;
  return Status::ok();
}

/// Returns the outcome of this round, or nullopt if it is undecided and this host cannot decide it.
Result<std::optional<std::string>> OtherHosts::decide() {
  const std::string round = key("round", round_);
  if (const std::optional<JobCause> proposal = memory_.proposal())
    return std::optional(BRAID_TRY(store_->putIfAbsent(round, encodeCause(*proposal))));
  if (isZero() && areSent_)
    BRAID_TRY(readParts());
  if (!isZero() || !memory_.haveCome(memory_.allRanks(), round_))
    return store_->poll(round);
  return std::optional(BRAID_TRY(store_->putIfAbsent(round, kDone)));
}

/// The round is committed even if a rank fails now.
Status OtherHosts::finishRound() {
  BRAID_TRY(readParts());
  if (!memory_.haveCome(memory_.allRanks(), round_))
    return badInput("expected all hosts to say what their ranks have said, got less");
  memory_.finishGather(round_++);
  areSent_ = false;
  for (Host &host : others_)
    host.hasCome = true;
  return Status::ok();
}

/// A host that has left ends the round. If host 0 has left, the store may be gone as well.
void OtherHosts::abortIfRoundCannotEnd() {
  for (const Host &host : others_)
    if (host.hasLeft && hasCome(memory_.host()))
      memory_.abort({peerFailed("{} left before the others were done", nameOf(host)),
                     memory_.ranksOf(host.number).first});
}

// -- Clocks. --

void OtherHosts::lookAtClocks() {
  const Clock::time_point now = Clock::now();
  const Clock::duration elapsed = std::min<Clock::duration>(now - lastLook_, kLongestLook);
  lastLook_ = now;
  waited_ += elapsed;
  Clock::duration longest{0};
  for (Host &host : others_) {
    if (!host.hasCome || host.hasLeft)
      continue;
    host.silent += elapsed;
    longest = std::max(longest, host.silent);
    if (host.silent >= options_.silence && !memory_.isAborted())
      lose(host);
  }
  memory_.setRoundTripNs(static_cast<uint64_t>(std::chrono::nanoseconds(longest).count()));
  // The store may have been in host 0's process. A host that has left decides nothing.
  if (!isZero() && others_.front().hasLeft && !reached_.isOk()) {
    abortIfRoundCannotEnd();
    memory_.decideHere();
  }
  lookForMissing();
}

/// Hosts may start minutes apart, so the user is told which ones are missing.
void OtherHosts::lookForMissing() {
  std::vector<std::string> missing;
  for (const Host &host : others_)
    if (!host.hasCome)
      missing.push_back(nameOf(host));
  if (missing.empty() || memory_.isAborted())
    return;
  const Clock::time_point now = Clock::now();
  if (waited_ >= options_.joinTimeout) {
    giveUp({timedOut("expected {} hosts to join within {} s, got all but {}", memory_.hosts(),
                     seconds(options_.joinTimeout), fmt::join(missing, ", ")),
            -1});
  } else if (isZero() && now >= nextSaying_ && options_.say) {
    nextSaying_ = now + kBetweenSayings;
    options_.say(fmt::format("waiting for {}", fmt::join(missing, ", ")));
  }
}

void OtherHosts::lose(const Host &host) {
  const char *why = reached_.isOk() ? "it has stopped, is down or is cut off"
                                    : "the store of the hosts cannot be reached";
  giveUp({timedOut("{}: nothing was heard from it for {} s; {}", nameOf(host),
                   seconds(options_.silence), why),
          memory_.ranksOf(host.number).first});
}

/// Aborts the job without the store, so this host decides for itself.
void OtherHosts::giveUp(const JobCause &cause) {
  memory_.abort(cause);
  if (!reached_.isOk())
    memory_.decideHere();
}

// -- The end. --

/// Retries until it succeeds, the store is gone, or a second has elapsed.
void OtherHosts::leave() {
  for (const auto deadline = Clock::now() + kForLeaving; Clock::now() < deadline;) {
    const Status left = sayGoodbye();
    if (left.isOk() || left.code() == StatusCode::PeerFailed)
      return;
    std::this_thread::sleep_for(kPauseInGather);
  }
}

/// Other hosts see this host's proposal before they see that it has left. Host 0 stays until all
/// others have left, because the store may be in its process.
Status OtherHosts::sayGoodbye() {
  BRAID_TRY(introduce());
  BRAID_TRY(lookAtRound());
  BRAID_TRY(giveSign(true));
  // The answer to this request shows that the store has received the heartbeat.
  BRAID_TRY(store_->poll(key("host", memory_.host())).status());
  if (!isZero())
    return Status::ok();
  BRAID_TRY(listen());
  const bool isAlone =
      llvm::none_of(others_, [](const Host &host) { return host.hasCome && !host.hasLeft; });
  return isAlone ? Status::ok() : timedOut("other hosts are there");
}

} // namespace braid
