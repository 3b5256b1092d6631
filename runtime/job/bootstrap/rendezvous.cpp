//===- runtime/job/bootstrap/rendezvous.cpp ---------------------------------------------------===//
#include "runtime/job/bootstrap/rendezvous.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/job/bootstrap/start_thread.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Errno.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <map>
#include <thread>

#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

namespace braid {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {
/// The time limit for a rank to send its hello after connecting.
constexpr auto kHelloTime = 1s;
/// The interval at which the thread checks the job's state and the time limit for joining.
constexpr auto kTick = 50ms;
constexpr size_t kShownOfJob = 80; ///< maximum length of a job's name in messages

/// Formats two process ids in ascending order, as in ": processes 12 and 13". Returns an empty
/// string if the ids do not distinguish the processes.
std::string namePids(pid_t one, pid_t other) {
  if (one == 0 || other == 0 || one == other)
    return "";
  auto [first, second] = std::minmax(one, other);
  return ": processes " + std::to_string(first) + " and " + std::to_string(second);
}

} // namespace

Result<std::string> randomName() {
  std::array<char, 16> bytes; // getrandom() returns up to 256 bytes in full
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return unsupported("cannot generate a random name: {}", llvm::sys::StrError(errno));
  return llvm::toHex(llvm::StringRef(bytes.data(), bytes.size()), true);
}

Result<RendezvousPlace> listenForJob(const ClientHello &hello, Deadline deadline) {
  const std::string name = nameOfJob(hello.job);
  for (;;) {
    FileDescriptor listener = BRAID_TRY(Connection::listenAt(name));
    if (listener.isValid())
      return RendezvousPlace{name, std::move(listener)};
    const Status answer = Client::join(name, hello, deadline).status();
    if (!answer.isOk() && answer.code() != StatusCode::PeerFailed)
      return answer;
    if (Clock::now() >= deadline)
      return timedOut("the job name '{}' is still in use by another job",
                      printable(hello.job, kShownOfJob));
    std::this_thread::sleep_for(5ms);
  }
}

namespace {

class RendezvousThread final : public Rendezvous {
public:
  RendezvousThread(RendezvousPlace place, JobMemory &memory, RendezvousOptions options)
      : name_(std::move(place.name)), listener_(std::move(place.listener)), memory_(memory),
        options_(std::move(options)), ranks_(memory.ranksOf(memory.host())),
        joinDeadline_(deadlineIn(options_.joinTimeout)) {}
  Status start() {
    return thread_.start("the rendezvous", [this] { run(); });
  }

  const std::string &name() const override { return name_; }
  bool isContradicted() const override { return isContradicted_; }
  Status waitForAllToLeave(Deadline deadline) const override {
    for (;;) {
      const std::vector<int64_t> present = ranksIn(RankState::Joined);
      if (present.empty())
        return Status::ok();
      if (Clock::now() >= deadline)
        return timedOut("{} did not leave the job in time", nameRanks(present));
      std::this_thread::sleep_for(2ms);
    }
  }

private:
  /// A rank that has joined.
  struct Member {
    Connection connection;
    FileDescriptor process; ///< see Connection::openPeer()
  };

  std::vector<int64_t> ranksIn(RankState state) const {
    std::vector<int64_t> found;
    for (int64_t rank : ranks_)
      if (stateOf(rank) == state)
        found.push_back(rank);
    return found;
  }
  RankState stateOf(int64_t rank) const {
    return memory_.slot(rank).state.load(std::memory_order_seq_cst);
  }
  void setState(int64_t rank, RankState state) {
    memory_.slot(rank).state.store(state, std::memory_order_seq_cst);
  }

  // -- Called by the thread. --

  void run() {
    for (;;) {
      // poll() ignores negative descriptors.
      std::vector<pollfd> events = {{thread_.end(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      std::vector<int64_t> ranks;
      for (const auto &[rank, each] : members_) {
        ranks.push_back(rank);
        events.push_back({each.connection.descriptor(), POLLIN, 0});
        // A child process of a dead rank may keep the connection open, so the process is polled.
        events.push_back({each.process.get(), POLLIN, 0});
      }
      poll(events.data(), events.size(), kTick.count());
      if (events[0].revents != 0)
        return;
      for (size_t i = 0; i < ranks.size(); ++i)
        if (events[2 * i + 3].revents != 0)
          loseRank(ranks[i], peerFailed("its process has died"));
        else if (events[2 * i + 2].revents != 0)
          serveRank(ranks[i]);
      if (memory_.gathered() > 0)
        listener_.reset(); // no further process may connect
      else if (events[1].revents != 0)
        acceptPeer();
      abortIfRanksAreMissing();
    }
  }

  void abortIfRanksAreMissing() {
    if (memory_.isAborted() || Clock::now() < joinDeadline_)
      return;
    if (const std::vector<int64_t> absent = ranksIn(RankState::Absent); !absent.empty())
      memory_.abort(
          {timedOut("expected {} ranks to join within {} s, but {} did not", memory_.ranks(),
                    static_cast<double>(options_.joinTimeout.count()) / 1000, nameRanks(absent)),
           absent.front()});
  }

  /// Accepts a peer. Drops it if it belongs to another user, sends no hello, or has disconnected.
  void acceptPeer() {
    Connection peer(acceptFrom(listener_));
    if (peer.descriptor() < 0) {
      std::this_thread::sleep_for(10ms); // the process may be out of descriptors
      return;
    }
    const ucred process = peer.peer();
    if (process.uid != geteuid())
      return;
    const Result<Message> message = peer.receive(deadlineIn(kHelloTime));
    if (!message || message->descriptor.isValid() || peer.hasEnded())
      return;
    const Result<ClientHello> hello = ClientHello::decode(message->text);
    if (!hello)
      return;
    if (const Status cause = contradiction(*hello, process.pid); !cause.isOk())
      contradict(peer, *hello, cause);
    else
      welcome(std::move(peer), process.pid, hello->rank);
  }

  Status contradiction(const ClientHello &hello, pid_t pid) const {
    const std::string job = printable(options_.job, kShownOfJob);
    if (hello.ranks != memory_.ranks())
      return badInput("rank {} reports that job '{}' has {} ranks, but rank 0 reports {}",
                      hello.rank, job, hello.ranks, memory_.ranks());
    if (!memory_.isHere(hello.rank))
      return badInput("expected a rank of this host ({} to {}), got rank {}", ranks_.first,
                      ranks_.first + ranks_.count - 1, hello.rank);
    const auto other = static_cast<pid_t>(memory_.slot(hello.rank).pid.load());
    if (stateOf(hello.rank) == RankState::Absent && (other == 0 || other == pid))
      return Status::ok();
    return badInput(
        "two processes claim to be rank {} of job '{}'{}; start each rank once, and give each "
        "job its own name (see braid doctor)",
        hello.rank, job, namePids(pid, other));
  }

  /// Rejects a contradictory hello. Aborts the job unless it has started or failed. If it has, the
  /// peer may belong to the next job with the same name, whose first rank can listen once this host
  /// has stopped listening.
  void contradict(Connection &peer, const ClientHello &hello, const Status &cause) {
    if (!isContradicted_ && (memory_.gathered() > 0 || memory_.isAborted())) {
      if (memory_.isAborted() && hello.rank == ranks_.first)
        listener_.reset();
      return;
    }
    if (!isContradicted_)
      memory_.abort({cause, hello.rank < memory_.ranks() ? hello.rank : -1});
    isContradicted_ = true;
    // If there are several hosts, the first cause may still be undecided.
    const std::string why = memory_.cause().value_or(JobCause{cause}).status.message();
    // A new connection has buffer space, so sending fails only if the peer is gone.
    (void)peer.send(("R" + why).substr(0, Message::kMaxBytes));
  }

  void welcome(Connection peer, pid_t pid, int64_t rank) {
    FileDescriptor process = peer.openPeer();
    memory_.slot(rank).pid.store(static_cast<uint32_t>(pid), std::memory_order_relaxed);
    setState(rank, RankState::Joined);
    const Status sent = peer.send("W", memory_.descriptor());
    members_.insert_or_assign(rank, Member{std::move(peer), std::move(process)});
    if (!sent.isOk())
      loseRank(rank, sent);
  }

  void serveRank(int64_t rank) {
    Connection &connection = members_.at(rank).connection;
    Result<Message> message = connection.receive(Clock::now());
    if (message.status().code() == StatusCode::TimedOut)
      return;
    const Status status = message ? answer(rank, connection, *message) : message.status();
    if (!status.isOk())
      loseRank(rank, status);
  }

  /// Answers a rank's message. Returns BadInput if the rank violates the protocol.
  Status answer(int64_t rank, Connection &connection, Message &message) {
    const std::string text = message.text.substr(1);
    int wanted = -1;
    if (message.text.front() == 'O' && message.descriptor.isValid())
      offers_.insert_or_assign(fmt::format("{} {}", rank, text), std::move(message.descriptor));
    else if (message.text.front() != 'G')
      return badInput("it neither shared nor requested a file descriptor");
    else if (const auto found = offers_.find(text); found != offers_.end())
      wanted = found->second.get();
    return connection.send("D", wanted);
  }

  /// Drops a rank whose connection has ended or is no longer usable.
  void loseRank(int64_t rank, const Status &why) {
    if (why.code() != StatusCode::PeerFailed || stateOf(rank) != RankState::Left) {
      // Abort first, so that any process that sees the dead rank also sees why it died.
      memory_.abort({Status(StatusCode::PeerFailed, explainLoss(rank, why)), rank});
      setState(rank, RankState::Dead);
    }
    members_.erase(rank);
    std::erase_if(offers_, [start = fmt::format("{} ", rank)](const auto &offer) {
      return offer.first.starts_with(start);
    });
  }

  std::string explainLoss(int64_t rank, const Status &why) const {
    std::string text = fmt::format("rank {} ", rank);
    if (why.code() == StatusCode::BadInput)
      text += "violated the protocol: " + why.message();
    else if (why.code() != StatusCode::PeerFailed)
      text += "has a broken connection: " + why.message();
    else
      text += options_.explainDeath ? options_.explainDeath(rank) : "closed its connection";
    const std::string doing = options_.describe ? options_.describe(rank) : "";
    return doing.empty() ? text : text + "\n  " + doing;
  }

  const std::string name_;
  FileDescriptor listener_; ///< closed once no further rank may join
  JobMemory &memory_;
  const RendezvousOptions options_;
  std::atomic<bool> isContradicted_{false};

  const Ranks ranks_;                            ///< the ranks of this host
  std::map<int64_t, Member> members_;            ///< the connected ranks
  std::map<std::string, FileDescriptor> offers_; ///< keyed by "RANK name", as in a G message
  const Deadline joinDeadline_;
  ServiceThread thread_; ///< last, because it uses the other members
};

} // namespace

Result<std::unique_ptr<Rendezvous>> Rendezvous::start(RendezvousPlace place, JobMemory &memory,
                                                      RendezvousOptions options) {
  auto rendezvous =
      std::make_unique<RendezvousThread>(std::move(place), memory, std::move(options));
  BRAID_TRY(rendezvous->start());
  return std::unique_ptr<Rendezvous>(std::move(rendezvous));
}

} // namespace braid
