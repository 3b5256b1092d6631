//===- tests/support/message_cluster.cpp - CPU ranks that send each other messages ------------===//

#include "tests/support/message_cluster.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/queue/flags.h"
#include "ir/failure.h"
#include "tests/support/elements.h"

#include "llvm/ADT/STLExtras.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace braid::test {
namespace {

constexpr std::chrono::seconds kPatience{20};
/// More than a rank has messages under way.
constexpr uint32_t kSlots = 4096;

/// Where the ranks of a job meet. Functions return false if nobody comes.
class Exchange {
public:
  bool group(int64_t rank, llvm::ArrayRef<MessageArgs> messages) {
    std::unique_lock lock(mutex_);
    std::deque<Sent> sent;
    for (const MessageArgs &m : messages)
      if (m.direction == Direction::Send) {
        sent.push_back({m.data, m.bytes});
        posted_[{rank, m.peer}].push_back(&sent.back());
      }
    changed_.notify_all();
    for (const MessageArgs &m : messages) {
      if (m.direction == Direction::Send)
        continue;
      std::deque<Sent *> &waiting = posted_[{m.peer, rank}];
      if (!wait(lock, [&] { return !waiting.empty(); }) || waiting.front()->bytes != m.bytes)
        return false;
      std::memcpy(m.data, waiting.front()->data, static_cast<size_t>(m.bytes));
      waiting.front()->isTaken = true;
      waiting.pop_front();
      changed_.notify_all();
    }
    return wait(lock, [&] { return llvm::all_of(sent, [](const Sent &s) { return s.isTaken; }); });
  }

  bool collective(int64_t rank, const CollectiveArgs &args) {
    std::unique_lock lock(mutex_);
    Meeting &meeting = meetings_[args.team.vec()];
    const auto self = static_cast<size_t>(llvm::find(args.team, rank) - args.team.begin());
    meeting.members.resize(args.team.size());
    if (!wait(lock, [&] { return !meeting.members[self] && meeting.left == 0; }))
      return false;
    meeting.members[self] = &args;
    if (llvm::all_of(meeting.members, [](const CollectiveArgs *each) { return each; }))
      meeting.left = args.team.size();
    changed_.notify_all();
    if (!wait(lock, [&] { return meeting.left > 0; }))
      return false;
    finish(self, meeting.members);
    if (--meeting.left == 0)
      meeting.members.assign(meeting.members.size(), nullptr);
    changed_.notify_all();
    return wait(lock, [&] { return meeting.members[self] != &args; }); // they read what it gives
  }

private:
  struct Sent {
    const void *data;
    int64_t bytes;
    bool isTaken = false;
  };
  struct Meeting {
    std::vector<const CollectiveArgs *> members;
    size_t left = 0; ///< who have not taken their part
  };

  template <class Done> bool wait(std::unique_lock<std::mutex> &lock, Done done) {
    return changed_.wait_for(lock, kPatience, done);
  }

  /// What one member gets.
  static void finish(size_t self, llvm::ArrayRef<const CollectiveArgs *> members) {
    const CollectiveArgs &mine = *members[self];
    auto *dst = static_cast<char *>(mine.dst);
    const auto got = static_cast<size_t>(mine.dstBytes), each = got / members.size();
    const auto source = [&](size_t member) {
      return static_cast<const char *>(members[member]->src);
    };
    const auto root = static_cast<size_t>(llvm::find(mine.team, std::max<int64_t>(mine.root, 0)) -
                                          mine.team.begin());
    switch (mine.kind) {
    case CollectiveKind::AllGather:
      for (size_t i = 0; i < members.size(); ++i)
        std::memcpy(dst + i * each, source(i), each);
      return;
    case CollectiveKind::AllToAll:
      for (size_t i = 0; i < members.size(); ++i)
        std::memcpy(dst + i * each, source(i) + self * each, each);
      return;
    case CollectiveKind::Broadcast:
      std::memcpy(dst, source(root), got);
      return;
    case CollectiveKind::ReduceScatter:
      return sum(mine, members, self * got);
    case CollectiveKind::AllReduce:
      return sum(mine, members, 0);
    case CollectiveKind::Reduce:
      if (self == root)
        sum(mine, members, 0);
      return;
    }
  }

  static void sum(const CollectiveArgs &mine, llvm::ArrayRef<const CollectiveArgs *> members,
                  size_t offset) {
    const auto size = static_cast<size_t>(sizeOf(mine.dtype));
    for (size_t at = 0; at < static_cast<size_t>(mine.dstBytes); at += size) {
      double all = 0;
      for (const CollectiveArgs *each : members) {
        uint64_t bits = 0;
        std::memcpy(&bits, static_cast<const char *>(each->src) + offset + at, size);
        all += decode(mine.dtype, bits);
      }
      const uint64_t bits = encode(mine.dtype, all);
      std::memcpy(static_cast<char *>(mine.dst) + at, &bits, size);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int64_t, int64_t>, std::deque<Sent *>> posted_;
  std::map<Team, Meeting> meetings_;
};

/// Another device, which sends messages, too. Its stream says that it has come to a message, and
/// waits until a thread of this rank, which takes messages one after the other in the order issued,
/// says that it is over.
class MessageDevice final : public Device, public Compute, public PeerMemory, public Messages {
public:
  MessageDevice(Device &inner, ControlPlane &control, Exchange &exchange, bool isDumb)
      : inner_(inner), control_(control), exchange_(exchange), isDumb_(isDumb),
        thread_([this] { work(); }) {}
  ~MessageDevice() override {
    {
      std::lock_guard lock(mutex_);
      isOver_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Compute &compute() override { return *this; }
  PeerMemory *peerMemory() override { return this; }
  Messages *messages() override { return this; }
  Result<void *> allocate(ArenaKind kind, int64_t bytes) override {
    return inner_.allocate(kind, bytes);
  }
  Status reserveStreams(uint32_t count) override { return inner_.reserveStreams(count); }
  Result<uint32_t> createEvents(uint32_t count) override { return inner_.createEvents(count); }
  Status registerPlan(const Plan &plan, TransferMode mode) override {
    return inner_.registerPlan(plan, mode);
  }
  void release(void *base) override { inner_.release(base); }
  void releaseEvents(uint32_t first) override { inner_.releaseEvents(first); }
  void releasePlan(const Plan &plan) override { inner_.releasePlan(plan); }
  void recycle() override { inner_.recycle(); }
  Status synchronize() override { return inner_.synchronize(); }
  std::vector<PendingWait> pending() override { return inner_.pending(); }

  void copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) override {
    inner_.copy(stream, tag, dst, src, bytes);
  }
  void record(uint32_t stream, Tag tag, uint32_t event) override {
    inner_.record(stream, tag, event);
  }
  void waitEvent(uint32_t stream, Tag tag, uint32_t event) override {
    inner_.waitEvent(stream, tag, event);
  }

  Status warm(const PlanMatmul &shape) override { return inner_.compute().warm(shape); }
  void matmul(uint32_t stream, Tag tag, const MatmulArgs &args) override {
    inner_.compute().matmul(stream, tag, args);
  }
  void add(uint32_t stream, Tag tag, DType dtype, void *dst, const void *src,
           int64_t elements) override {
    inner_.compute().add(stream, tag, dtype, dst, src, elements);
  }
  void sum(uint32_t stream, Tag tag, const SumArgs &args) override {
    inner_.compute().sum(stream, tag, args);
  }
  void pointwise(uint32_t stream, Tag tag, const PointwiseArgs &args) override {
    inner_.compute().pointwise(stream, tag, args);
  }

  bool countsRuns() const override { return peers().countsRuns(); }
  bool offers(TransferMode mode) const override { return peers().offers(mode); }
  ArenaKind arenaOfFlags(TransferMode mode) const override { return peers().arenaOfFlags(mode); }
  Result<std::string> exportMemory(void *base) override { return peers().exportMemory(base); }
  Result<void *> open(int64_t peer, const std::string &handle) override {
    return peers().open(peer, handle);
  }
  void issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps, bool areDisjoint,
                  TransferMode mode) override {
    peers().issueBatch(stream, tag, steps, areDisjoint, mode);
  }

  Status openTeams(llvm::ArrayRef<Team>, ControlPlane &control) override {
    for (const std::string &each : BRAID_TRY(control.allGather(isDumb_ ? "dumb" : "")))
      if (!each.empty())
        return peerFailed("this rank has no voice");
    if (!isDone_) // the device's: streams may write there until that is destroyed
      isDone_ = BRAID_TRY(inner_.allocate(ArenaKind::Flags, (1 + kSlots) * kFlagStride));
    return Status::ok();
  }
  void group(uint32_t stream, Tag tag, llvm::ArrayRef<MessageArgs> messages) override {
    later(stream, tag,
          [this, held = messages.vec()] { return exchange_.group(control_.rank(), held); });
  }
  void collective(uint32_t stream, Tag tag, const CollectiveArgs &args) override {
    later(stream, tag, [this, args] { return exchange_.collective(control_.rank(), args); });
  }

private:
  PeerMemory &peers() const { return *inner_.peerMemory(); }
  /// Of the message of that number. Streams may come in another order than that of issue.
  void *hasCome(uint32_t number) const {
    return static_cast<char *>(isDone_) + (1 + number % kSlots) * kFlagStride;
  }

  void later(uint32_t stream, Tag tag, std::function<bool()> meeting) {
    {
      std::lock_guard lock(mutex_);
      meetings_.push_back(std::move(meeting));
    }
    changed_.notify_all();
    tag.run = ++issued_; // what the flags count
    const BatchedCommand steps[] = {
        {CommandKind::Signal, tag.command, hasCome(issued_), nullptr, nullptr, 0},
        {CommandKind::Await, tag.command, isDone_, nullptr, nullptr, 0}};
    peers().issueBatch(stream, tag, steps, false, {});
  }

  void work() {
    for (uint32_t number = 1;; ++number) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return isOver_ || !meetings_.empty(); });
      if (isOver_)
        return;
      const std::function<bool()> meeting = std::move(meetings_.front());
      meetings_.pop_front();
      lock.unlock();
      if (!waitFor(number))
        return;
      if (!meeting())
        control_.abort(Status(StatusCode::TimedOut, "nobody has come"));
      storeFlag(isDone_, number, FutexScope::Process);
    }
  }

  /// Until the stream has come to the message of that number. False if it never will.
  bool waitFor(uint32_t number) {
    for (;;) {
      const uint32_t seen = flagAt(hasCome(number)).load(std::memory_order_acquire);
      if (hasReached(seen, number))
        return true;
      std::unique_lock lock(mutex_);
      if (isOver_)
        return false;
      lock.unlock();
      futexWait(hasCome(number), seen, std::chrono::milliseconds(20));
    }
  }

  Device &inner_;
  ControlPlane &control_;
  Exchange &exchange_;
  const bool isDumb_;
  void *isDone_ = nullptr; ///< a flag that the thread writes, and behind it those of streams
  uint32_t issued_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<bool()>> meetings_;
  bool isOver_ = false;
  std::thread thread_;
};

class MessageCluster final : public Cluster {
public:
  MessageCluster(std::unique_ptr<Cluster> inner, int64_t dumb) : inner_(std::move(inner)) {
    for (int64_t rank = 0; rank < inner_->ranks(); ++rank)
      devices_.emplace_back(inner_->device(rank), inner_->control(rank), exchange_, rank == dumb);
  }
  int64_t ranks() const override { return inner_->ranks(); }
  void setPlans(llvm::ArrayRef<Plan> plans) override { inner_->setPlans(plans); }
  bool isStuck() const override { return inner_->isStuck(); }
  Device &device(int64_t rank) override { return devices_[static_cast<size_t>(rank)]; }
  ControlPlane &control(int64_t rank) override { return inner_->control(rank); }

private:
  std::unique_ptr<Cluster> inner_;
  Exchange exchange_;
  std::deque<MessageDevice> devices_;
};

} // namespace

Backend messageBackend(int64_t dumb) {
  BackendRegistry registry;
  registerCpuBackend(registry);
  Backend backend = *registry.find("cpu");
  backend.name = "messages";
  backend.transport = Transport::Messages;
  backend.messages = [] { return Result<std::string>("a test's own"); };
  backend.create = [create = backend.create,
                    dumb](const ClusterOptions &options) -> Result<std::unique_ptr<Cluster>> {
    std::unique_ptr<Cluster> inner = BRAID_TRY(create(options));
    return std::unique_ptr<Cluster>(std::make_unique<MessageCluster>(std::move(inner), dumb));
  };
  return backend;
}

} // namespace braid::test
