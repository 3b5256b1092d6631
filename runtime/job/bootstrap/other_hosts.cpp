//===- runtime/job/bootstrap/other_hosts.cpp - connects the hosts of a job --------------------===//

#include "runtime/job/bootstrap/other_hosts.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/host_messages.h"
#include "runtime/job/bootstrap/start_thread.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace braid {

using namespace std::chrono_literals;

namespace {

const std::string kDone = "done";
/// The intervals at which the store is polled outside and during an all-gather.
constexpr auto kPauseAtRest = 50ms, kPauseInGather = 2ms;
/// If a poll takes longer than this, the thread was suspended and may have missed heartbeats.
constexpr auto kLongestLook = 500ms;
/// The time limit for leaving. Host 0 also waits for the other hosts to leave.
constexpr auto kForLeaving = 1000ms;

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

class OtherHostsThread final : public OtherHosts {
public:
  OtherHostsThread(std::unique_ptr<Store> store, JobMemory &memory, OtherHostsOptions options)
      : store_(std::move(store)), memory_(memory), options_(std::move(options)) {
    for (int64_t host = 0; host < memory.hosts(); ++host)
      if (host != memory.host())
        others_.push_back({host});
  }
  ~OtherHostsThread() override {
    isEnding_ = true;
    memory_.wake();
    if (thread_.joinable())
      thread_.join();
  }
  Status start() {
    return startThread(thread_, "the connection to other hosts", [this] { run(); });
  }

private:
  using Clock = std::chrono::steady_clock;
  /// The last known state of another host.
  struct Host {
    int64_t number;
    bool hasCome = false, hasLeft = false;
    uint64_t sign = 0;         ///< number of its last heartbeat
    Clock::duration silent{0}; ///< time since its last heartbeat
  };

  void run() {
    blockSignals();
    while (!isEnding_) {
      reached_ = communicate();
      if (reached_.code() == StatusCode::BadInput && !memory_.isAborted())
        memory_.abort({reached_, -1});
      lookAtClocks();
      if (!hasCome(memory_.host()))
        memory_.waitForRanks(round_, kPauseAtRest);
      else
        std::this_thread::sleep_for(isFailed_ || !reached_.isOk() ? kPauseAtRest : kPauseInGather);
    }
    // Retries until this host has left, the store is gone, or the time limit has passed.
    for (const auto deadline = Clock::now() + kForLeaving; Clock::now() < deadline;) {
      const Status left = leave();
      if (left.isOk() || left.code() == StatusCode::PeerFailed)
        return;
      std::this_thread::sleep_for(kPauseInGather);
    }
  }

  /// Exchanges data with the store. Stops at the first failure; the next call retries. While a
  /// proposal is undecided, sends no heartbeats or parts, because this host's state may be wrong.
  Status communicate() {
    BRAID_TRY(introduce());
    if (const Clock::time_point now = Clock::now(); now >= nextSign_ && !memory_.proposal()) {
      BRAID_TRY(giveSign(false));
      // The size of a heartbeat grows with the number of ranks, so its period must grow as well.
      nextSign_ = now + 100ms + std::chrono::milliseconds(memory_.ranks());
      BRAID_TRY(listen());
    }
    if (!isFailed_ && !memory_.proposal())
      BRAID_TRY(sendParts());
    return lookAtRound();
  }

  bool isZero() const { return memory_.host() == 0; }

  std::string key(const char *what, int64_t number) const {
    return fmt::format("{}{}{}", prefix_, what, number);
  }

  std::string keyOfParts(int64_t host) const {
    return fmt::format("{}.{}", key("parts", host), round_ % 2);
  }

  /// Selects the first job with this name in which this host has not participated yet.
  Status introduce() {
    if (!prefix_.empty())
      return Status::ok();
    const std::string id = std::to_string(memory_.number());
    std::string prefix, taken;
    for (int64_t job = 1; taken != id; ++job) {
      prefix = fmt::format("{}{}/", storePrefix(options_.job), job);
      taken = BRAID_TRY(store_->putIfAbsent(fmt::format("{}is{}", prefix, memory_.host()), id));
    }
    const std::string shape = fmt::format("{} hosts and {} ranks (version {})", memory_.hosts(),
                                          memory_.ranks(), kHostVersion);
    const std::string first = BRAID_TRY(store_->putIfAbsent(prefix + "shape", shape));
    prefix_ = prefix;
    return first == shape ? Status::ok()
                          : badInput("host {} reports {}, but another host reports {}",
                                     memory_.host(), shape, first);
  }

  // -- Heartbeats. --

  Status giveSign(bool isLast) {
    return store_->put(key("host", memory_.host()), encodeSign({++signs_, isLast}, memory_));
  }

  Status listen() {
    for (Host &host : others_) {
      const auto text =
          host.hasLeft ? std::nullopt : BRAID_TRY(store_->poll(key("host", host.number)));
      if (!text)
        continue;
      const HostSign sign = BRAID_TRY(takeSign(*text, memory_, host.number, host.sign));
      if (sign.number != host.sign)
        host.silent = {};
      host.sign = sign.number;
      host.hasCome = true;
      host.hasLeft = sign.hasLeft;
      if (host.hasLeft)
        for (int64_t rank : memory_.ranksOf(host.number))
          memory_.slot(rank).state.store(RankState::Left, std::memory_order_relaxed);
    }
    return Status::ok();
  }

  /// Names a host, for example "host 1 (ranks 4 to 7)".
  std::string nameOf(const Host &host) const {
    const auto [first, count] = memory_.ranksOf(host.number);
    return count == 1
               ? fmt::format("host {} (rank {})", host.number, first)
               : fmt::format("host {} (ranks {} to {})", host.number, first, first + count - 1);
  }

  // -- All-gathers. --

  /// Returns true if this host knows that all ranks on `host` have joined the round.
  bool hasCome(int64_t host) const { return memory_.haveCome(memory_.ranksOf(host), round_); }

  Status sendParts() {
    const int64_t host = memory_.host();
    if (areSent_ || !hasCome(host))
      return Status::ok();
    const std::string text = BRAID_TRY(encodeParts(memory_, round_));
    if (text.size() > kMaxStoreValue)
      return badInput("expected at most {} bytes in total from the ranks of a host, got {}",
                      kMaxStoreValue, text.size());
    BRAID_TRY(store_->put(keyOfParts(host), text));
    areSent_ = true;
    return Status::ok();
  }

  /// Copies the available parts of ranks on other hosts from the store.
  Status readParts() {
    for (const Host &host : others_)
      if (!hasCome(host.number))
        if (const auto text = BRAID_TRY(store_->poll(keyOfParts(host.number))))
          BRAID_TRY(takeParts(*text, memory_, host.number, round_));
    return Status::ok();
  }

  Status lookAtRound() {
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

  /// Returns this round's outcome, or nullopt if it is undecided and this host cannot decide it.
  Result<std::optional<std::string>> decide() {
    const std::string round = key("round", round_);
    if (const std::optional<JobCause> proposal = memory_.proposal())
      return std::optional(BRAID_TRY(store_->putIfAbsent(round, encodeCause(*proposal))));
    if (isZero() && areSent_)
      BRAID_TRY(readParts());
    if (!isZero() || !memory_.haveCome(memory_.allRanks(), round_))
      return store_->poll(round);
    return std::optional(BRAID_TRY(store_->putIfAbsent(round, kDone)));
  }

  /// Copies the missing parts and finishes the round, which is committed even if a rank fails now.
  Status finishRound() {
    BRAID_TRY(readParts());
    if (!memory_.haveCome(memory_.allRanks(), round_))
      return badInput("expected all-gather data from all hosts, but some is missing");
    memory_.finishGather(round_++);
    areSent_ = false;
    for (Host &host : others_)
      host.hasCome = true;
    return Status::ok();
  }

  /// Aborts the job if this host's ranks are in a round that cannot end because a host has left.
  void abortIfRoundCannotEnd() {
    for (const Host &host : others_)
      if (host.hasLeft && hasCome(memory_.host()))
        memory_.abort(
            {peerFailed("{} left the job before the other ranks had finished", nameOf(host)),
             memory_.ranksOf(host.number).first});
  }

  // -- Clocks. --

  void lookAtClocks() {
    const Clock::time_point now = Clock::now();
    const Clock::duration elapsed = std::min<Clock::duration>(now - lastLook_, kLongestLook);
    lastLook_ = now;
    waited_ += elapsed;
    Clock::duration longest{0};
    std::vector<std::string> missing;
    for (Host &host : others_) {
      if (!host.hasCome)
        missing.push_back(nameOf(host));
      if (!host.hasCome || host.hasLeft)
        continue;
      host.silent += elapsed;
      longest = std::max(longest, host.silent);
      if (host.silent >= options_.silence)
        giveUp(timedOut("{}: no heartbeat for {} s; {}", nameOf(host), seconds(options_.silence),
                        reached_.isOk() ? "it has stopped, is down or is unreachable"
                                        : "the store that connects the hosts is unreachable"),
               memory_.ranksOf(host.number).first);
    }
    memory_.setRoundTripNs(static_cast<uint64_t>(std::chrono::nanoseconds(longest).count()));
    if (!missing.empty() && waited_ >= options_.joinTimeout)
      giveUp(timedOut("expected {} hosts to join within {} s, but {} did not", memory_.hosts(),
                      seconds(options_.joinTimeout), fmt::join(missing, ", ")),
             -1);
    // The store was part of host 0's process, which has ended. Now this host decides alone.
    if (!isZero() && others_.front().hasLeft && !reached_.isOk()) {
      abortIfRoundCannotEnd();
      memory_.decideHere();
    }
  }

  /// Aborts the job. If the store cannot be reached, this host decides on its own.
  void giveUp(const Status &why, int64_t rank) {
    if (memory_.isAborted())
      return;
    memory_.abort({why, rank});
    if (!reached_.isOk())
      memory_.decideHere();
  }

  // -- Leaving. --

  /// Lets other hosts see this host's proposal before they see that it has left. Host 0 stays until
  /// all others have left, because the store may be in its process.
  Status leave() {
    BRAID_TRY(introduce());
    BRAID_TRY(lookAtRound());
    BRAID_TRY(giveSign(true));
    // The reply to this request confirms that the store has received the heartbeat.
    BRAID_TRY(store_->poll(key("host", memory_.host())).status());
    if (!isZero())
      return Status::ok();
    BRAID_TRY(listen());
    const bool isAlone =
        llvm::none_of(others_, [](const Host &host) { return host.hasCome && !host.hasLeft; });
    return isAlone ? Status::ok() : timedOut("other hosts are still in the job");
  }

  const std::unique_ptr<Store> store_;
  JobMemory &memory_;
  const OtherHostsOptions options_;
  std::atomic<bool> isEnding_{false};

  // Accessed only by the thread.
  std::string prefix_;       ///< the prefix of all keys; empty before introduce()
  std::vector<Host> others_; ///< sorted by number
  uint32_t round_ = 1;
  bool isFailed_ = false;     ///< the round has failed
  bool areSent_ = false;      ///< the parts of this host's ranks are in the store
  Status reached_;            ///< the result of the last access to the store
  Clock::duration waited_{0}; ///< time spent waiting for hosts to join
  uint64_t signs_ = 0;        ///< number of heartbeats sent
  Clock::time_point lastLook_ = Clock::now(), nextSign_{};

  std::thread thread_;
};

} // namespace

Result<std::unique_ptr<OtherHosts>>
OtherHosts::start(std::unique_ptr<Store> store, JobMemory &memory, OtherHostsOptions options) {
  auto others = std::make_unique<OtherHostsThread>(std::move(store), memory, std::move(options));
  BRAID_TRY(others->start());
  return std::unique_ptr<OtherHosts>(std::move(others));
}

} // namespace braid
