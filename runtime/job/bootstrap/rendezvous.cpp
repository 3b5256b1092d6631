//===- runtime/job/bootstrap/rendezvous.cpp ---------------------------------------------------===//
#include "runtime/job/bootstrap/rendezvous.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/job/bootstrap/client.h"
#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/start_thread.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/Errno.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <map>
#include <mutex>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace braid {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {
constexpr size_t kMaxPeers = 64;
constexpr auto kHelloTime = 2s;
/// How often the thread looks at the job's mark and at its clocks when nothing happens.
constexpr auto kTick = 50ms;
constexpr size_t kMaxOffers = 256;    ///< of one rank
constexpr size_t kMaxNameBytes = 256; ///< of an offer
constexpr size_t kMaxAnswers = 64;    ///< that one rank has not read
constexpr size_t kShownOfJob = 80;    ///< characters of its name

/// "rank 2" or "ranks 2, 3".
std::string nameRanks(const std::vector<int64_t> &ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

/// ": processes 12 and 13", the smaller first; nothing if they cannot be told apart from here.
std::string namePids(int64_t one, int64_t other) {
  if (one == 0 || other == 0 || one == other)
    return "";
  auto [first, second] = std::minmax(one, other);
  return ": processes " + std::to_string(first) + " and " + std::to_string(second);
}

/// What is still to be sent to one rank. Never blocks.
class Outbox {
public:
  using Bytes = std::shared_ptr<const std::string>;
  void add(Bytes bytes, FileDescriptor descriptor = {}) {
    messages_.push_back({std::move(bytes), std::move(descriptor)});
  }
  size_t size() const { return messages_.size(); }
  void clear() { messages_.clear(); }
  /// Sends what `connection` takes now.
  Status flush(Connection &connection);

private:
  struct Message {
    Bytes bytes;
    FileDescriptor descriptor;
    size_t sent = 0;
  };
  std::deque<Message> messages_;
};

Status Outbox::flush(Connection &connection) {
  while (!messages_.empty()) {
    Message &first = messages_.front();
    size_t sent =
        BRAID_TRY(connection.sendAvailable(llvm::StringRef(*first.bytes).drop_front(first.sent),
                                           first.sent == 0 ? first.descriptor.get() : -1));
    if (sent == 0)
      return Status::ok();
    first.sent += sent;
    if (first.sent == first.bytes->size())
      messages_.pop_front();
  }
  return Status::ok();
}

Outbox::Bytes share(const Frame &frame) {
  return std::make_shared<const std::string>(encode(frame));
}

/// Connected, and has not said who it is.
struct UnauthenticatedPeer {
  Connection connection;
  PeerIdentity identity;
  Deadline deadline;
};

struct Rank {
  RankState state = RankState::Absent;
  std::optional<Connection> connection;
  FileDescriptor process; ///< see Connection::openPeer()
  bool isKilled = false;
  Outbox outbox;
  std::map<std::string, FileDescriptor> offers;
  std::optional<std::string> part; ///< of the all-gather that is going on
  uint32_t step = 0;               ///< that it is to commit; 0: none
};
} // namespace

/// All but the functions marked so belong to the thread.
class Rendezvous::Server {
public:
  Server(RendezvousEndpoint endpoint, JobMemory &memory, RendezvousOptions options,
         std::unique_ptr<OtherHosts> others, FileDescriptor wake)
      : endpoint_(std::move(endpoint)), memory_(memory), options_(std::move(options)),
        wake_(std::move(wake)), ranks_(static_cast<size_t>(memory.ranksPerHost())),
        first_(memory.host() * memory.ranksPerHost()),
        joinDeadline_(deadlineIn(options_.joinTimeout)), others_(std::move(others)) {}

  void run();

  // -- Any thread. --
  void stop();
  Status waitForAllToLeave(Deadline deadline);
  RendezvousCounts counts() const;

private:
  // Waiting.
  void waitForEvents();
  void serveEvents();
  void lookAtClocks();
  std::string nameStopped(std::vector<int64_t> ranks) const;

  // Unauthenticated peers.
  enum class Verdict { Waiting, Done };
  void acceptPeers();
  bool acceptOne();
  void dropOldest();
  void servePeers();
  Verdict servePeer(UnauthenticatedPeer &peer);
  Status whyRefused(const Result<ClientHello> &hello) const;
  Status contradiction(const ClientHello &hello, pid_t pid) const;
  void contradict(UnauthenticatedPeer &peer, int64_t rank, const Status &cause);
  void refuse(UnauthenticatedPeer &peer, const std::string &why);
  void welcome(UnauthenticatedPeer &peer, int64_t rank);
  void countDropped();

  // Ranks.
  void serveRank(int64_t rank, short events, bool isDead);
  Status handle(int64_t rank, Received received);
  Status handleGather(int64_t rank, std::string part, uint32_t sequence, uint32_t step);
  Status handleCommit(int64_t rank, const Frame &frame);
  Status handleOffer(int64_t rank, Received received);
  Status handleWant(int64_t rank, const Frame &frame);
  void finishGather();
  void tellGathered(const GatheredParts &gathered);
  void abortIfGatherCannotEnd();
  void answer(int64_t rank, Outbox::Bytes bytes, FileDescriptor descriptor = {});
  void loseRank(int64_t rank, const Status &why, bool wasInside);
  void setState(int64_t rank, RankState state);
  std::vector<int64_t> ranksIn(RankState state) const;
  Rank &rankOf(int64_t number) { return ranks_[static_cast<size_t>(number - first_)]; }
  bool isHere(int64_t number) const { return memory_.isHere(number); }

  // The end.
  /// All that have not left, or only those that are stopped.
  void killStragglers(bool isGraceOver);

  RendezvousEndpoint endpoint_;
  JobMemory &memory_;
  const RendezvousOptions options_;
  const FileDescriptor wake_; ///< an eventfd
  std::atomic<bool> isStopped_{false};

  std::vector<Rank> ranks_;               ///< of this host
  const int64_t first_;                   ///< the number of the first of them
  std::deque<UnauthenticatedPeer> peers_; ///< oldest first
  /// wake, listener, ranks, their processes, unauthenticated peers, other hosts' news
  std::vector<pollfd> events_;
  uint32_t gather_ = 1;         ///< the number of the all-gather that is going on
  bool isContradicted_ = false; ///< which aborted the job
  const Deadline joinDeadline_;
  std::optional<Deadline> killTime_;
  size_t absentBefore_ = 0;                  ///< at the last look since the job failed
  Deadline acceptTime_{};                    ///< not before
  const std::unique_ptr<OtherHosts> others_; ///< null: there are none

  mutable std::mutex mutex_; ///< guards what follows
  std::condition_variable changed_;
  RendezvousCounts counts_;
  std::vector<int64_t> present_; ///< ranks that have joined and are there
};

// -- Waiting. --

void Rendezvous::Server::run() {
  // Signals are for the process's own threads.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  while (!isStopped_) {
    waitForEvents();
    serveEvents();
    lookAtClocks();
  }
}

void Rendezvous::Server::waitForEvents() {
  events_.clear();
  events_.push_back({wake_.get(), POLLIN, 0});
  // A negative descriptor is skipped.
  events_.push_back({Clock::now() < acceptTime_ ? -1 : endpoint_.listener(), POLLIN, 0});
  for (const Rank &rank : ranks_) {
    auto events = static_cast<short>(rank.outbox.size() ? POLLIN | POLLOUT : POLLIN);
    events_.push_back({rank.connection ? rank.connection->descriptor() : -1, events, 0});
  }
  // A child of a rank's may keep the connection open when that is dead.
  for (const Rank &rank : ranks_)
    events_.push_back({rank.process.get(), POLLIN, 0});
  for (const UnauthenticatedPeer &peer : peers_)
    events_.push_back({peer.connection.descriptor(), POLLIN, 0});
  events_.push_back({others_ ? others_->descriptor() : -1, POLLIN, 0});
  if (poll(events_.data(), events_.size(), kTick.count()) < 0)
    for (pollfd &entry : events_)
      entry.revents = 0;
}

void Rendezvous::Server::serveEvents() {
  for (size_t i = 0; i < ranks_.size(); ++i)
    serveRank(first_ + static_cast<int64_t>(i), events_[2 + i].revents,
              events_[2 + ranks_.size() + i].revents != 0);
  servePeers();
  if (events_[1].revents)
    acceptPeers();
  if (!others_)
    return;
  if (std::optional<GatheredParts> gathered = others_->takeGathered())
    tellGathered(*gathered);
}

/// "; stopped: rank 1": those of `ranks` that are.
std::string Rendezvous::Server::nameStopped(std::vector<int64_t> ranks) const {
  llvm::erase_if(ranks,
                 [&](int64_t rank) { return !options_.isStopped || !options_.isStopped(rank); });
  return ranks.empty() ? "" : "; stopped: " + nameRanks(ranks);
}

void Rendezvous::Server::lookAtClocks() {
  Deadline now = Clock::now();
  if (std::vector<int64_t> absent = ranksIn(RankState::Absent);
      !absent.empty() && now >= joinDeadline_ && !memory_.isAborted())
    memory_.abort(
        {timedOut("expected {} ranks to join within {} s, got all but {}{}", options_.ranks,
                  static_cast<double>(options_.joinTimeout.count()) / 1000, nameRanks(absent),
                  nameStopped(absent)),
         absent.front()});
  if (!memory_.isAborted())
    return;
  const size_t absent = ranksIn(RankState::Absent).size();
  if (!killTime_ || absent < absentBefore_) // who comes late has to hear of it, too
    killTime_ = now + options_.grace;
  absentBefore_ = absent;
  if (options_.killsStragglers)
    killStragglers(now >= *killTime_);
}

// -- Unauthenticated peers. --

void Rendezvous::Server::acceptPeers() {
  // Not without end: the ranks want to be served, too.
  for (size_t i = 0; i < kMaxPeers && acceptOne(); ++i) {
  }
}

bool Rendezvous::Server::acceptOne() {
  FileDescriptor socket(
      accept4(endpoint_.listener(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.isValid()) {
    // Without a number to give, an unauthenticated peer has to go, or accepting has to wait.
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      acceptTime_ = deadlineIn(10ms);
      dropOldest();
    }
    return false;
  }
  Connection connection(std::move(socket), kMaxBodyBeforeWelcome);
  Result<PeerIdentity> identity = connection.peer();
  if (!identity || identity->uid != geteuid()) {
    countDropped();
    return true;
  }
  peers_.push_back({std::move(connection), *identity, deadlineIn(kHelloTime)});
  // A rank says hello at once: it is most often here already, and needs no place in the crowd.
  if (servePeer(peers_.back()) == Verdict::Done)
    peers_.pop_back();
  else if (peers_.size() > kMaxPeers)
    dropOldest();
  return endpoint_.listener() >= 0;
}

/// Who has waited longest has had the most time to say hello; and it gets a last chance.
void Rendezvous::Server::dropOldest() {
  if (peers_.empty())
    return;
  if (servePeer(peers_.front()) == Verdict::Waiting)
    countDropped();
  if (!peers_.empty())
    peers_.pop_front();
}

void Rendezvous::Server::servePeers() {
  Deadline now = Clock::now();
  const size_t first = 2 + 2 * ranks_.size();
  for (size_t i = first; i + 1 < events_.size(); ++i) {
    UnauthenticatedPeer peer = std::move(peers_.front());
    peers_.pop_front();
    if (events_[i].revents && servePeer(peer) == Verdict::Done)
      continue;
    if (now < peer.deadline)
      peers_.push_back(std::move(peer));
    else
      countDropped();
  }
}

Rendezvous::Server::Verdict Rendezvous::Server::servePeer(UnauthenticatedPeer &peer) {
  std::vector<Received> frames;
  Status status = peer.connection.receiveAvailable(frames);
  if (status.isOk() && frames.empty())
    return Verdict::Waiting;
  // A hello, the whole hello, and nothing but the hello.
  if (!status.isOk() || frames.size() != 1 || frames[0].frame.kind != FrameKind::Hello ||
      frames[0].frame.hasDescriptor) {
    countDropped();
    return Verdict::Done;
  }
  Result<ClientHello> hello = ClientHello::decode(frames[0].frame.body);
  if (Status why = whyRefused(hello); !why.isOk())
    refuse(peer, why.message());
  else if (Status cause = contradiction(*hello, peer.identity.pid); !cause.isOk())
    contradict(peer, hello->rank, cause);
  else
    welcome(peer, hello->rank);
  return Verdict::Done;
}

Status Rendezvous::Server::whyRefused(const Result<ClientHello> &hello) const {
  if (!hello)
    return hello.status();
  if (hello->job != options_.job)
    return badInput("expected a rank of this job, got one of another job");
  // Another number of ranks is a contradiction, which all are to hear of.
  if (hello->ranks != options_.ranks || isHere(hello->rank))
    return Status::ok();
  return badInput("expected one of the ranks {} to {}, which are on this host, got rank {}", first_,
                  first_ + memory_.ranksPerHost() - 1, hello->rank);
}

/// Two processes that are rank 0 each host an endpoint and tell each other, so that both have to
/// find the same words.
Status Rendezvous::Server::contradiction(const ClientHello &hello, pid_t pid) const {
  const std::string job = printable(options_.job, kShownOfJob);
  const bool isOurs = hello.rank == options_.ownRank;
  const size_t index = static_cast<size_t>(hello.rank - first_);
  const bool isTaken = index < ranks_.size() && ranks_[index].state != RankState::Absent;
  if (isTaken || (isOurs && pid != getpid())) {
    const int64_t other =
        isOurs ? getpid() : memory_.slot(hello.rank).pid.load(std::memory_order_relaxed);
    return badInput(
        "two processes are rank {} of job '{}'{}; expected each rank once, and a name of its own "
        "for each job (see braid env)",
        hello.rank, job, namePids(pid, other));
  }
  if (hello.ranks != options_.ranks)
    return badInput("rank {} says that job '{}' has {} ranks, rank 0 says {}", hello.rank, job,
                    hello.ranks, options_.ranks);
  return Status::ok();
}

/// Ends a job that has not begun. One that has, or has failed for another reason, is no concern of
/// who comes now: it may be the next job of that name.
void Rendezvous::Server::contradict(UnauthenticatedPeer &peer, int64_t rank, const Status &cause) {
  const bool isFirst = !isContradicted_ && gather_ == 1 && !memory_.isAborted();
  if (!isFirst && !isContradicted_)
    return countDropped();
  if (isFirst)
    memory_.abort({cause, rank < options_.ranks ? rank : -1});
  isContradicted_ = true;
  {
    std::lock_guard lock(mutex_);
    ++counts_.contradicted;
  }
  // Among several hosts, the first cause has yet to be decided.
  const std::optional<JobCause> decided = memory_.cause();
  refuse(peer, decided ? decided->status.message() : cause.message());
}

void Rendezvous::Server::refuse(UnauthenticatedPeer &peer, const std::string &why) {
  countDropped();
  // Into the empty buffer of a new connection; whoever does not hear it is gone.
  (void)peer.connection.sendAvailable(encode({.kind = FrameKind::Refused, .body = why}));
}

void Rendezvous::Server::welcome(UnauthenticatedPeer &peer, int64_t number) {
  FileDescriptor memory = FileDescriptor::duplicate(memory_.descriptor());
  if (!memory.isValid()) {
    refuse(peer, "the host of the job has no descriptor left");
    return;
  }
  Rank &rank = rankOf(number);
  rank.process = peer.connection.openPeer();
  rank.connection = std::move(peer.connection);
  rank.connection->setMaxBody(kMaxBody);
  memory_.slot(number).pid.store(static_cast<uint32_t>(peer.identity.pid),
                                 std::memory_order_relaxed);
  setState(number, RankState::Joined);
  answer(number, share({.kind = FrameKind::Welcome, .hasDescriptor = true}), std::move(memory));
}

void Rendezvous::Server::countDropped() {
  std::lock_guard lock(mutex_);
  ++counts_.dropped;
}

// -- Ranks. --

/// What a dead rank said is heard first: it may have disconnected.
void Rendezvous::Server::serveRank(int64_t number, short events, bool isDead) {
  Rank &rank = rankOf(number);
  if (!rank.connection || (events == 0 && !isDead))
    return;
  if (isDead || (events & ~POLLOUT)) {
    std::vector<Received> frames;
    bool wasInside = false;
    Status status = rank.connection->receiveAvailable(frames, &wasInside);
    for (Received &received : frames) {
      if (!rank.connection)
        return;
      if (Status wrong = handle(number, std::move(received)); !wrong.isOk())
        return loseRank(number, wrong, false);
    }
    if (!status.isOk() && rank.connection)
      return loseRank(number, status, wasInside);
  }
  if (!rank.connection)
    return;
  if (isDead)
    return loseRank(number, peerFailed("its process is dead"), false);
  if (Status status = rank.outbox.flush(*rank.connection); !status.isOk())
    loseRank(number, status, false);
}

/// A failure means that the rank does not keep to the protocol.
Status Rendezvous::Server::handle(int64_t rank, Received received) {
  Frame &frame = received.frame;
  if (frame.hasDescriptor != (frame.kind == FrameKind::Offer))
    return badInput("expected a descriptor with an offer, and only with one");
  switch (frame.kind) {
  case FrameKind::Gather:
    return handleGather(rank, std::move(frame.body), frame.sequence, 0);
  case FrameKind::Commit:
    return handleCommit(rank, frame);
  case FrameKind::Offer:
    return handleOffer(rank, std::move(received));
  case FrameKind::Want:
    return handleWant(rank, frame);
  case FrameKind::Disconnect:
    setState(rank, RankState::Left);
    abortIfGatherCannotEnd();
    return Status::ok();
  default:
    return badInput("expected a message of a rank, got kind {}", static_cast<int>(frame.kind));
  }
}

Status Rendezvous::Server::handleGather(int64_t number, std::string part, uint32_t sequence,
                                        uint32_t step) {
  Rank &rank = rankOf(number);
  if (rank.part || sequence != gather_)
    return badInput("expected a part of all-gather {}, got one of {}", gather_, sequence);
  rank.part = std::move(part);
  rank.step = step;
  if (llvm::all_of(ranks_, [](const Rank &any) { return any.part.has_value(); }))
    finishGather();
  else
    abortIfGatherCannotEnd();
  return Status::ok();
}

Status Rendezvous::Server::handleCommit(int64_t rank, const Frame &frame) {
  if (frame.body.size() != 4)
    return badInput("expected the number of a step, got {} bytes", frame.body.size());
  return handleGather(rank, "", frame.sequence, llvm::support::endian::read32le(frame.body.data()));
}

/// All ranks of this host have come.
void Rendezvous::Server::finishGather() {
  GatheredParts gathered{.sequence = gather_, .step = ranks_.front().step};
  size_t bytes = 4; // the number of parts
  for (const Rank &rank : ranks_) {
    bytes += 4 + rank.part->size();
    gathered.step = std::min(gathered.step, rank.step);
    gathered.parts.push_back(*rank.part);
  }
  if (bytes > kMaxBody)
    return (void)memory_.abort(
        {badInput("expected at most {} bytes from all ranks together, got {}", kMaxBody, bytes)});
  if (others_)
    return others_->bring(std::move(gathered));
  // Then it counts, whatever happens to whom.
  if (gathered.step == 0 || memory_.commit(gathered.step))
    tellGathered(gathered);
}

/// What all ranks of the job have said.
void Rendezvous::Server::tellGathered(const GatheredParts &gathered) {
  endpoint_.close(); // nobody else is to find it
  for (Rank &rank : ranks_)
    rank.part.reset();
  gather_ = gathered.sequence + 1;
  const Outbox::Bytes message = share({.kind = FrameKind::Gathered,
                                       .sequence = gathered.sequence,
                                       .body = encodeParts(gathered.parts)});
  for (size_t i = 0; i < ranks_.size(); ++i)
    answer(first_ + static_cast<int64_t>(i), message);
}

/// A rank that has left takes no part in any all-gather; one that has died has aborted the job.
void Rendezvous::Server::abortIfGatherCannotEnd() {
  std::vector<int64_t> left = ranksIn(RankState::Left);
  if (left.empty() || llvm::none_of(ranks_, [](const Rank &any) { return any.part.has_value(); }))
    return;
  memory_.abort({peerFailed("{} left before the others were done", nameRanks(left)), left.front()});
}

Status Rendezvous::Server::handleOffer(int64_t number, Received received) {
  Rank &rank = rankOf(number);
  const bool isKnown = rank.offers.count(received.frame.body) != 0;
  if (received.frame.body.size() > kMaxNameBytes || (!isKnown && rank.offers.size() >= kMaxOffers))
    return badInput("expected at most {} offers with names of at most {} bytes, got more",
                    kMaxOffers, kMaxNameBytes);
  rank.offers.insert_or_assign(received.frame.body, std::move(received.descriptor));
  return Status::ok();
}

Status Rendezvous::Server::handleWant(int64_t number, const Frame &frame) {
  if (rankOf(number).outbox.size() >= kMaxAnswers)
    return badInput("expected answers to be read, got {} that are not", kMaxAnswers);
  if (frame.body.size() < 8)
    return badInput("expected a rank and a name, got the end of the message");
  uint64_t owner = llvm::support::endian::read64le(frame.body.data());
  std::string name = frame.body.substr(8);
  if (owner >= static_cast<uint64_t>(options_.ranks) || !isHere(static_cast<int64_t>(owner)))
    return badInput("expected a rank of this host, got {}", owner);
  const auto &offers = rankOf(static_cast<int64_t>(owner)).offers;
  FileDescriptor descriptor;
  if (auto found = offers.find(name); found != offers.end())
    descriptor = FileDescriptor::duplicate(found->second.get());
  Frame reply{.kind = FrameKind::Descriptor, .sequence = frame.sequence};
  reply.hasDescriptor = descriptor.isValid();
  if (!descriptor.isValid())
    reply.body = "expected something that rank " + std::to_string(owner) + " offers, got '" +
                 name.substr(0, kMaxNameBytes) + "'";
  answer(number, share(reply), std::move(descriptor));
  return Status::ok();
}

/// Sends what can be sent now, and the rest when the rank reads. Failing to is noticed later.
void Rendezvous::Server::answer(int64_t number, Outbox::Bytes bytes, FileDescriptor descriptor) {
  Rank &rank = rankOf(number);
  if (!rank.connection)
    return;
  rank.outbox.add(std::move(bytes), std::move(descriptor));
  Status status = rank.outbox.flush(*rank.connection);
  if (status.isOk())
    return;
  rank.outbox.clear(); // what it said before, perhaps that it disconnects, is still to be read
  if (status.code() != StatusCode::PeerFailed)
    memory_.abort({status.annotated(fmt::format("rank {} gets no answer", number)), number});
}

void Rendezvous::Server::loseRank(int64_t number, const Status &why, bool wasInside) {
  std::string text = "rank " + std::to_string(number) + " ";
  if (why.code() == StatusCode::BadInput)
    text += "broke the protocol: " + why.message();
  else if (why.code() != StatusCode::PeerFailed)
    text += "cannot be heard: " + why.message();
  else if (options_.explainDeath)
    text += options_.explainDeath(number);
  else
    text += "closed its connection";
  if (wasInside && why.code() == StatusCode::PeerFailed)
    text += " in the middle of a message";
  if (std::string doing = options_.describe ? options_.describe(number) : ""; !doing.empty())
    text += "\n  " + doing;
  // The mark first: whoever is told that the rank is dead can see why.
  memory_.abort({Status(StatusCode::PeerFailed, std::move(text)), number});
  setState(number, RankState::Dead);
}

void Rendezvous::Server::setState(int64_t number, RankState state) {
  Rank &rank = rankOf(number);
  rank.state = state;
  memory_.slot(number).state.store(static_cast<uint32_t>(state), std::memory_order_relaxed);
  bool isPresent = state == RankState::Joined;
  if (!isPresent) {
    rank.connection.reset();
    rank.process.reset();
    rank.outbox.clear();
    rank.offers.clear();
    rank.part.reset(); // an all-gather without this rank never ends
  }
  std::lock_guard lock(mutex_);
  counts_.joined += isPresent;
  if (isPresent)
    present_.push_back(number);
  else
    present_.erase(std::remove(present_.begin(), present_.end(), number), present_.end());
  changed_.notify_all();
}

std::vector<int64_t> Rendezvous::Server::ranksIn(RankState state) const {
  std::vector<int64_t> found;
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].state == state)
      found.push_back(first_ + static_cast<int64_t>(i));
  return found;
}

// -- The end. --

void Rendezvous::Server::killStragglers(bool isGraceOver) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank &rank = ranks_[i];
    const int64_t number = first_ + static_cast<int64_t>(i);
    if (!rank.connection || !rank.process.isValid() || rank.isKilled)
      continue;
    const bool isStopped = options_.isStopped && options_.isStopped(number);
    if (!isGraceOver && !isStopped)
      continue;
    std::lock_guard lock(mutex_); // whoever sees that it is dead sees that it was counted
    rank.isKilled = true;         // or it has gone by itself
    if (syscall(SYS_pidfd_send_signal, rank.process.get(), SIGKILL, nullptr, 0) != 0)
      continue;
    ++counts_.killed;
    // The end of its connection may come much later: a process with a GPU takes long to go.
    memory_.slot(number).isKilled.store(1, std::memory_order_relaxed);
  }
}

// -- Any thread. --

void Rendezvous::Server::stop() {
  isStopped_ = true;
  uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

Status Rendezvous::Server::waitForAllToLeave(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_until(lock, deadline, [&] { return present_.empty(); }))
    return Status::ok();
  std::vector<int64_t> present = present_;
  std::sort(present.begin(), present.end());
  return timedOut("expected all ranks to leave in time, got all but {}", nameRanks(present));
}

RendezvousCounts Rendezvous::Server::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::start(RendezvousEndpoint endpoint,
                                                      JobMemory &memory, RendezvousOptions options,
                                                      std::unique_ptr<OtherHosts> others) {
  if (options.ranks < 1 || options.ranks != memory.ranks())
    return badInput("expected a job memory for {} ranks, got one for {}", options.ranks,
                    memory.ranks());
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.isValid())
    return unsupported("cannot make an eventfd: {}", llvm::sys::StrError(errno));
  std::unique_ptr<Rendezvous> rendezvous(new Rendezvous());
  rendezvous->path_ = endpoint.path();
  rendezvous->server_ = std::make_unique<Server>(std::move(endpoint), memory, std::move(options),
                                                 std::move(others), std::move(wake));
  Server *server = rendezvous->server_.get();
  BRAID_TRY(startThread(rendezvous->thread_, "the meeting", [server] { server->run(); }));
  return rendezvous;
}

Rendezvous::~Rendezvous() {
  if (!thread_.joinable())
    return;
  server_->stop();
  thread_.join();
}

Status Rendezvous::waitForAllToLeave(Deadline deadline) {
  return server_->waitForAllToLeave(deadline);
}

RendezvousCounts Rendezvous::counts() const { return server_->counts(); }

} // namespace braid
