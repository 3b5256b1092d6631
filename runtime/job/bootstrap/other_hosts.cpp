//===- runtime/job/bootstrap/other_hosts.cpp - joins the hosts of a job -----------------------===//

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

const std::string kDone = "done ";
/// Between looks at the store, while nothing goes on and during an all-gather.
constexpr auto kPauseAtRest = 50ms, kPauseInGather = 2ms;
/// A host waits this long at a time for the outcome of an all-gather.
constexpr auto kForOutcome = 20ms;
/// A thread that was away for longer than this has been stopped, and has not heard anything.
constexpr auto kLongestLook = 500ms;
constexpr auto kBeforeSaying = 5s, kBetweenSayings = 10s;
/// A host stays this long to leave, and host 0 for the others to do so.
constexpr auto kForLeaving = 1000ms;

/// The more ranks there are, the longer is a sign of life.
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
      hosts_(static_cast<size_t>(memory.hosts())), lastLook_(Clock::now()),
      nextSaying_(lastLook_ + kBeforeSaying) {}

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

/// The first failure ends it; the next call tries again.
Status OtherHosts::communicate() {
  BRAID_TRY(introduce());
  if (const Clock::time_point now = Clock::now(); now >= nextSign_) {
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

/// Takes the first job of this name that this host has not taken part in.
Status OtherHosts::introduce() {
  for (int64_t job = 1; prefix_.empty(); ++job) {
    const std::string prefix = fmt::format("{}{}/", storePrefix(options_.job), job);
    const std::string taken =
        BRAID_TRY(store_->putIfAbsent(fmt::format("{}is{}", prefix, memory_.host()), id_));
    if (taken == id_)
      prefix_ = prefix;
  }
  return Status::ok();
}

// -- Signs of life. --

Status OtherHosts::giveSign(bool isLast) {
  const HostSign sign{
      .count = ++signs_, .hosts = memory_.hosts(), .ranks = memory_.ranks(), .hasLeft = isLast};
  std::string text = sign.encode();
  appendSlots(memory_, isZero() ? memory_.allRanks() : memory_.ranksOf(memory_.host()),
              memory_.network().clockOffsetNs, text);
  return store_->put(key("host", memory_.host()), text);
}

/// Host 0 watches all hosts, and all watch host 0.
bool OtherHosts::isWatched(size_t host) const { return (host == 0) != isZero(); }

Status OtherHosts::listen() {
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (!isWatched(host) || hosts_[host].hasLeft)
      continue;
    const auto text = BRAID_TRY(store_->poll(key("host", static_cast<int64_t>(host))));
    if (text)
      BRAID_TRY(hear(host, *text));
  }
  return Status::ok();
}

Status OtherHosts::hear(size_t number, llvm::StringRef text) {
  const HostSign sign = BRAID_TRY(HostSign::decode(text));
  Host &host = hosts_[number];
  if (sign.count == host.signs)
    return Status::ok();
  if (sign.hosts != memory_.hosts() || sign.ranks != memory_.ranks())
    return badInput("host {} says that there are {} hosts and {} ranks, host {} says {} and {}",
                    number, sign.hosts, sign.ranks, memory_.host(), memory_.hosts(),
                    memory_.ranks());
  host.hasCome = true;
  host.hasLeft = sign.hasLeft;
  host.signs = sign.count;
  host.silent = {};
  // Host 0 passes on what this host has said itself, too.
  const int64_t perHost = memory_.ranksPerHost();
  BRAID_TRY(applySlots(text, memory_, -memory_.network().clockOffsetNs, [&](int64_t rank) {
    return isZero() ? rank / perHost == static_cast<int64_t>(number) : !memory_.isHere(rank);
  }));
  for (int64_t local = 0; host.hasLeft && local < perHost; ++local)
    memory_.slot(static_cast<int64_t>(number) * perHost + local)
        .state.store(static_cast<uint32_t>(RankState::Left), std::memory_order_relaxed);
  return Status::ok();
}

// -- All-gathers. --

/// All ranks of the host have come to the round, as far as this one knows.
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
  const Ranks ranks = memory_.ranksOf(host);
  const std::string text = GatheredParts{.sequence = round_,
                                         .step = memory_.leastStep(ranks, round_),
                                         .parts = BRAID_TRY(memory_.parts(ranks, round_))}
                               .encode();
  if (text.size() > kMaxStoreValue)
    return badInput("expected at most {} bytes from all ranks of a host together, got {}",
                    kMaxStoreValue, text.size());
  sentNs_ = monotonicNs();
  BRAID_TRY(store_->put(keyOfParts(host), text));
  areSent_ = true;
  return Status::ok();
}

/// Writes down what the ranks of other hosts have said, as far as that is in the store.
Status OtherHosts::takeParts() {
  for (int64_t host = 0; host < memory_.hosts(); ++host) {
    const auto text = hasCome(host) ? std::nullopt : BRAID_TRY(store_->poll(keyOfParts(host)));
    if (!text)
      continue;
    const Ranks ranks = memory_.ranksOf(host);
    const GatheredParts said =
        BRAID_TRY(GatheredParts::decode(*text, static_cast<size_t>(ranks.count)));
    for (int64_t i = 0; said.sequence == round_ && i < ranks.count; ++i)
      BRAID_TRY(
          memory_.bring(ranks.first + i, round_, said.parts[static_cast<size_t>(i)], said.step));
  }
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
  uint64_t zeroNs = 0;
  if (llvm::StringRef number = *outcome; number.consume_front(kDone))
    return number.getAsInteger(10, zeroNs) ? badInput("expected the time of host 0's clock")
                                           : finishRound(zeroNs);
  memory_.abortDecided(BRAID_TRY(decodeCause(*outcome, memory_.ranks())));
  isFailed_ = true;
  return Status::ok();
}

/// The outcome of this round, if there is one already or this host can decide it.
Result<std::optional<std::string>> OtherHosts::decide() {
  const std::string round = key("round", round_);
  if (const std::optional<JobCause> proposal = memory_.proposal())
    return std::optional(BRAID_TRY(store_->putIfAbsent(round, encodeCause(*proposal))));
  if (!isZero())
    return store_->get(round, areSent_ ? kForOutcome : 0ms);
  if (areSent_)
    BRAID_TRY(takeParts());
  if (!areSent_ || !memory_.haveCome(memory_.allRanks(), round_))
    return store_->poll(round);
  return std::optional(
      BRAID_TRY(store_->putIfAbsent(round, kDone + std::to_string(monotonicNs()))));
}

/// The round counts, whatever happens to any rank.
Status OtherHosts::finishRound(uint64_t zeroNs) {
  BRAID_TRY(takeParts());
  if (!memory_.haveCome(memory_.allRanks(), round_))
    return badInput("expected all hosts to say what their ranks have said, got less");
  if (!isZero())
    synchronizeClocks(zeroNs);
  memory_.finishGather(round_++);
  areSent_ = false;
  for (Host &host : hosts_)
    host.hasCome = true;
  return Status::ok();
}

/// Host 0 has read its clock between this host's parts and now. Each all-gather narrows down by how
/// much the clocks differ.
void OtherHosts::synchronizeClocks(uint64_t zeroNs) {
  leastOffsetNs_ = std::max(leastOffsetNs_, static_cast<int64_t>(zeroNs - monotonicNs()));
  mostOffsetNs_ = std::min(mostOffsetNs_, static_cast<int64_t>(zeroNs - sentNs_));
  JobMemory::Network network = memory_.network();
  network.clockOffsetNs = leastOffsetNs_ / 2 + mostOffsetNs_ / 2;
  network.clockErrorNs =
      static_cast<uint64_t>(std::max<int64_t>(0, mostOffsetNs_ - leastOffsetNs_)) / 2;
  memory_.setNetwork(network);
}

/// A host that has left ends a round. If host 0 has left, the store may be gone, too.
void OtherHosts::abortIfRoundCannotEnd() {
  for (size_t number = 0; number < hosts_.size(); ++number) {
    const auto host = static_cast<int64_t>(number);
    if (hasCome(memory_.host()) && isWatched(number) && hosts_[number].hasLeft)
      memory_.abort({peerFailed("{} left before the others were done",
                                nameHost(host, memory_.ranksPerHost())),
                     host * memory_.ranksPerHost()});
  }
}

// -- Clocks. --

void OtherHosts::lookAtClocks() {
  const Clock::time_point now = Clock::now();
  const Clock::duration elapsed = std::min<Clock::duration>(now - lastLook_, kLongestLook);
  lastLook_ = now;
  waited_ += elapsed;
  Clock::duration longest{0};
  for (size_t number = 0; number < hosts_.size(); ++number) {
    Host &host = hosts_[number];
    if (!isWatched(number) || !host.hasCome || host.hasLeft)
      continue;
    host.silent += elapsed;
    longest = std::max(longest, host.silent);
    if (host.silent >= options_.silence && !memory_.isAborted())
      lose(number);
  }
  JobMemory::Network network = memory_.network();
  network.roundTripNs = static_cast<uint64_t>(std::chrono::nanoseconds(longest).count());
  memory_.setNetwork(network);
  // Host 0 may have been the store's host, and decides nothing any more.
  if (!isZero() && hosts_.front().hasLeft && !reached_.isOk()) {
    abortIfRoundCannotEnd();
    memory_.decideHere();
  }
  lookForMissing();
}

/// Hosts may come minutes apart: the user is told which ones are missing.
void OtherHosts::lookForMissing() {
  std::vector<std::string> missing;
  for (size_t number = 0; number < hosts_.size(); ++number)
    if (isWatched(number) && !hosts_[number].hasCome)
      missing.push_back(nameHost(static_cast<int64_t>(number), memory_.ranksPerHost()));
  if (missing.empty() || memory_.isAborted())
    return;
  const Clock::time_point now = Clock::now();
  if (waited_ >= options_.joinTimeout) {
    memory_.abort({timedOut("expected {} hosts to come within {} s, got all but {}", hosts_.size(),
                            seconds(options_.joinTimeout), fmt::join(missing, ", ")),
                   -1});
    if (!reached_.isOk())
      memory_.decideHere();
  } else if (isZero() && now >= nextSaying_ && options_.say) {
    nextSaying_ = now + kBetweenSayings;
    options_.say(fmt::format("waiting for {}", fmt::join(missing, ", ")));
  }
}

void OtherHosts::lose(size_t number) {
  const auto host = static_cast<int64_t>(number);
  const char *why = reached_.isOk() ? "it stands still, is down or is cut off"
                                    : "the store of the hosts cannot be reached";
  memory_.abort({timedOut("{}: nothing was heard from it for {} s; {}",
                          nameHost(host, memory_.ranksPerHost()), seconds(options_.silence), why),
                 host * memory_.ranksPerHost()});
  if (!reached_.isOk())
    memory_.decideHere();
}

// -- The end. --

/// This host's proposal is heard before it says that it has left.
void OtherHosts::leave() {
  const auto deadline = Clock::now() + kForLeaving;
  const bool hasLeft = tryUntil(deadline, [this]() -> Status {
    BRAID_TRY(introduce());
    BRAID_TRY(lookAtRound());
    BRAID_TRY(giveSign(true));
    // The answer to this says that the sign was read.
    return store_->poll(key("host", memory_.host())).status();
  });
  if (hasLeft && isZero())
    tryUntil(deadline, [this]() -> Status {
      BRAID_TRY(listen());
      const bool isAlone = llvm::none_of(
          llvm::drop_begin(hosts_), [](const Host &host) { return host.hasCome && !host.hasLeft; });
      return isAlone ? Status::ok() : timedOut("other hosts are there");
    });
}

/// True if `step` has succeeded before the deadline and before the store was gone.
bool OtherHosts::tryUntil(Clock::time_point deadline, llvm::function_ref<Status()> step) {
  while (Clock::now() < deadline) {
    const Status status = step();
    if (status.isOk() || status.code() == StatusCode::PeerFailed)
      return status.isOk();
    std::this_thread::sleep_for(kPauseInGather);
  }
  return false;
}

} // namespace braid
