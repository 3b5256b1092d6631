//===- tests/processes/fault.cpp - what goes wrong on a rank, and where -----------------------===//

#include "tests/processes/fault.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/queue/command_queue.h"
#include "runtime/job/bootstrap/client.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <csignal>
#include <istream>
#include <ostream>
#include <stdexcept>
#include <thread>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace braid::test {

namespace {

using std::chrono::milliseconds;

constexpr const char *kActionNames[] = {"nothing",    "kill",        "stop",        "throw",
                                        "exit 0",     "delay below", "delay above", "drop",
                                        "short read", "cut"};
constexpr const char *kSiteNames[] = {"before joining",  "having joined",  "before committing",
                                      "committed",       "in teardown",    "having left",
                                      "issuing command", "in command",     "before message",
                                      "in message",      "reading message"};

/// A message that is sent in pieces is sent in as many as this, or a few more.
constexpr size_t kPieces = 8;

/// What is armed in this process. Written before there is a second thread.
struct Armed {
  std::vector<Fault> faults;
  std::array<std::atomic<bool>, 8> hasStruck{};
  std::function<void()> onStrike = [] {};

  /// The fault that strikes now, or null.
  const Fault *take(Site site, uint32_t index, uint32_t run) {
    for (size_t i = 0; i < faults.size(); ++i) {
      const Fault &fault = faults[i];
      if (fault.site == site && fault.index == index && fault.run == run &&
          !hasStruck[i].exchange(true)) {
        onStrike();
        return &fault;
      }
    }
    return nullptr;
  }
};
Armed armed;

/// False if what was about to happen shall not. Does not return, or throws, if that is the fault.
bool strike(const Fault *fault) {
  if (!fault)
    return true;
  switch (fault->action) {
  case Action::Kill:
    kill(getpid(), SIGKILL);
    break;
  case Action::Stop:
    kill(getpid(), SIGSTOP);
    break;
  case Action::Throw:
    throw std::runtime_error("no more paper");
  case Action::Exit:
    // A worker cannot leave in an orderly way, for it is what others would wait for.
    if (fault->site == Site::Run || fault->site == Site::Receive)
      _exit(0);
    std::exit(0);
  case Action::DelayBelow:
    std::this_thread::sleep_for(milliseconds(fault->belowMs));
    break;
  case Action::DelayAbove:
    std::this_thread::sleep_for(milliseconds(fault->aboveMs));
    break;
  case Action::Drop:
    return false;
  case Action::Nothing:
  case Action::Short:
  case Action::Cut:
    break;
  }
  return true;
}

// -- Commands. --

class FaultyObserver final : public CommandObserver {
public:
  void issued(uint32_t, const QueuedCommand &command) override {
    strike(armed.take(Site::Issue, command.tag.command, command.tag.run));
  }
  bool begin(uint32_t, const QueuedCommand &command) override {
    return strike(armed.take(Site::Run, command.tag.command, command.tag.run));
  }
};

// -- Steps of the host thread. --

class FaultyControl final : public ControlPlane {
public:
  explicit FaultyControl(ControlPlane &inner) : inner_(inner) {}
  int64_t rank() const override { return inner_.rank(); }
  int64_t size() const override { return inner_.size(); }
  Result<std::vector<std::string>> allGather(std::string mine) override {
    return inner_.allGather(std::move(mine));
  }
  Status commit() override {
    pass(Site::Commit);
    Status status = inner_.commit();
    if (status.isOk())
      pass(Site::Committed);
    return status;
  }
  void tick() override { inner_.tick(); }
  void abort(const Status &cause) override { inner_.abort(cause); }
  Status failure() const override { return inner_.failure(); }

private:
  ControlPlane &inner_;
};

class FaultyCluster final : public Cluster {
public:
  explicit FaultyCluster(std::unique_ptr<Cluster> inner)
      : inner_(std::move(inner)), control_(inner_->control(inner_->firstHosted())) {}
  ~FaultyCluster() override { pass(Site::Teardown); }
  int64_t ranks() const override { return inner_->ranks(); }
  int64_t firstHosted() const override { return inner_->firstHosted(); }
  int64_t hosted() const override { return inner_->hosted(); }
  void setPlans(llvm::ArrayRef<Plan> plans) override { inner_->setPlans(plans); }
  void forgetPlans(llvm::ArrayRef<Plan> plans) override { inner_->forgetPlans(plans); }
  bool isStuck() const override { return inner_->isStuck(); }
  Device &device(int64_t rank) override { return inner_->device(rank); }
  ControlPlane &control(int64_t) override { return control_; }

private:
  std::unique_ptr<Cluster> inner_;
  FaultyControl control_;
};

// -- Messages. --

ssize_t systemSend(int socket, const msghdr *message, int flags) {
  return syscall(SYS_sendmsg, socket, message, flags);
}

/// The first bytes of `message` only; a descriptor goes along with them.
ssize_t sendPart(int socket, const msghdr *message, size_t bytes, int flags) {
  iovec part{message->msg_iov[0].iov_base, bytes};
  msghdr shorter = *message;
  shorter.msg_iov = &part;
  shorter.msg_iovlen = 1;
  return systemSend(socket, &shorter, flags);
}

/// What a rank says to its host. Only its host thread sends.
class Outgoing {
public:
  ssize_t send(int socket, const msghdr *message, int flags) {
    const iovec &part = message->msg_iov[0];
    const llvm::StringRef bytes(static_cast<const char *>(part.iov_base), part.iov_len);
    if (dribbling_ > 0 && socket == socket_)
      return dribble(message, flags);
    if (!isMembers(bytes))
      return systemSend(socket, message, flags);
    socket_ = socket;
    const auto number = static_cast<uint32_t>(kinds_.size());
    kinds_ += static_cast<char>('0' + bytes[4]);
    strike(armed.take(Site::Send, number, 0));
    return sendHalf(armed.take(Site::SendHalf, number, 0), message, flags);
  }
  const std::string &kinds() const { return kinds_; }
  int socket() const { return socket_; }

private:
  /// The beginning of a message of a kind that clients send.
  static bool isMembers(llvm::StringRef bytes) {
    if (bytes.size() < kFrameHeaderBytes || bytes.take_front(4) != "brd1")
      return false;
    switch (static_cast<FrameKind>(bytes[4])) {
    case FrameKind::Hello:
    case FrameKind::Gather:
    case FrameKind::Offer:
    case FrameKind::Want:
    case FrameKind::Disconnect:
      return true;
    default:
      return false;
    }
  }

  ssize_t sendHalf(const Fault *fault, const msghdr *message, int flags) {
    const size_t bytes = message->msg_iov[0].iov_len;
    if (!fault)
      return systemSend(socket_, message, flags);
    if (fault->action == Action::Short) {
      dribbling_ = bytes;
      piece_ = 1 + bytes / kPieces;
      return dribble(message, flags);
    }
    ssize_t sent = sendPart(socket_, message, bytes / 2, flags);
    strike(fault);
    if (fault->action != Action::Cut)
      return sent;
    shutdown(socket_, SHUT_WR);
    return static_cast<ssize_t>(bytes);
  }

  ssize_t dribble(const msghdr *message, int flags) {
    ssize_t sent = sendPart(socket_, message, std::min(piece_, dribbling_), flags);
    if (sent > 0)
      dribbling_ -= static_cast<size_t>(sent);
    std::this_thread::yield();
    return sent;
  }

  int socket_ = -1;
  std::string kinds_;
  size_t dribbling_ = 0; ///< bytes of a message that go in pieces
  size_t piece_ = 1;
};
Outgoing outgoing;

/// What a rank hears from its host: first by its host thread, then by its watchdog.
class Incoming {
public:
  ssize_t receive(int socket, msghdr *message, int flags) {
    const bool isOurs = socket == outgoing.socket();
    const size_t room = message->msg_iov[0].iov_len;
    if (isOurs && isShort_)
      message->msg_iov[0].iov_len = 1;
    ssize_t got = syscall(SYS_recvmsg, socket, message, flags);
    message->msg_iov[0].iov_len = room;
    if (isOurs && got > 0)
      notice({static_cast<const char *>(message->msg_iov[0].iov_base), static_cast<size_t>(got)});
    return got;
  }
  const std::string &kinds() const { return kinds_; }
  /// The message that comes next is read byte by byte, if that is armed.
  void prepare() {
    if (const Fault *fault = find(); fault && fault->action == Action::Short) {
      armed.take(Site::Receive, number(), 0);
      isShort_ = true;
    }
  }

private:
  uint32_t number() const { return static_cast<uint32_t>(kinds_.size()); }
  const Fault *find() const {
    for (const Fault &fault : armed.faults)
      if (fault.site == Site::Receive && fault.index == number())
        return &fault;
    return nullptr;
  }
  void notice(llvm::StringRef bytes) {
    (void)decoder_.feed(bytes);
    if (const Fault *fault = find(); fault && fault->action != Action::Short)
      strike(armed.take(Site::Receive, number(), 0));
    while (std::optional<Frame> frame = decoder_.next()) {
      kinds_ += static_cast<char>('0' + static_cast<int>(frame->kind));
      isShort_ = false;
    }
    prepare();
  }

  FrameDecoder decoder_{kMaxBody};
  std::string kinds_;
  bool isShort_ = false;
};
Incoming incoming;

} // namespace

const char *name(Action action) { return kActionNames[static_cast<size_t>(action)]; }
const char *name(Site site) { return kSiteNames[static_cast<size_t>(site)]; }

std::string str(const Fault &fault) {
  std::string text =
      fmt::format("{} on rank {}, {}", name(fault.action), fault.rank, name(fault.site));
  if (fault.site >= Site::Issue)
    text += fmt::format(" {}", fault.index);
  if (fault.site == Site::Issue || fault.site == Site::Run)
    text += fmt::format(" of run {}", fault.run);
  return text;
}

std::ostream &operator<<(std::ostream &os, const Fault &fault) {
  return os << fault.rank << ' ' << static_cast<int>(fault.action) << ' '
            << static_cast<int>(fault.site) << ' ' << fault.index << ' ' << fault.run << ' '
            << fault.belowMs << ' ' << fault.aboveMs << '\n';
}

std::istream &operator>>(std::istream &is, Fault &fault) {
  int action = 0, site = 0;
  is >> fault.rank >> action >> site >> fault.index >> fault.run >> fault.belowMs >> fault.aboveMs;
  fault.action = static_cast<Action>(action);
  fault.site = static_cast<Site>(site);
  return is;
}

bool isPossible(Action action, Site site) {
  switch (action) {
  case Action::Nothing:
    return false;
  case Action::Drop:
    return site == Site::Run;
  case Action::Short:
    return site == Site::SendHalf || site == Site::Receive;
  case Action::Cut:
    return site == Site::SendHalf;
  case Action::Throw:
    return site != Site::Receive; // read by a thread that nobody waits for
  case Action::Kill:
  case Action::Stop:
  case Action::Exit:
  case Action::DelayBelow:
  case Action::DelayAbove:
    return true;
  }
  return false;
}

void arm(const std::vector<Fault> &faults, int64_t rank, std::function<void()> onStrike) {
  for (const Fault &fault : faults)
    if (fault.rank == rank)
      armed.faults.push_back(fault);
  armed.onStrike = std::move(onStrike);
  incoming.prepare();
}

void pass(Site site) { strike(armed.take(site, 0, 0)); }

std::string sentKinds() { return outgoing.kinds(); }
std::string receivedKinds() { return incoming.kinds(); }

Backend faultyBackend() {
  BackendRegistry registry;
  registerCpuBackend(registry, [](int64_t) { return std::make_unique<FaultyObserver>(); });
  Backend backend = *registry.find("cpu");
  backend.join =
      [join = backend.join](const ClusterOptions &options,
                            std::unique_ptr<Client> client) -> Result<std::unique_ptr<Cluster>> {
    Result<std::unique_ptr<Cluster>> inner = join(options, std::move(client));
    if (!inner)
      return inner.status();
    return std::unique_ptr<Cluster>(new FaultyCluster(std::move(*inner)));
  };
  return backend;
}

} // namespace braid::test

extern "C" ssize_t sendmsg(int socket, const msghdr *message, int flags) {
  return braid::test::outgoing.send(socket, message, flags);
}

extern "C" ssize_t recvmsg(int socket, msghdr *message, int flags) {
  return braid::test::incoming.receive(socket, message, flags);
}
