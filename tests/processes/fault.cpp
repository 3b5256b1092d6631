//===- tests/processes/fault.cpp - faults of a rank and their sites ---------------------------===//

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

constexpr const char *kActionNames[] = {"nothing",     "kill",        "stop",        "throw",
                                        "exit 0",      "delay below", "delay above", "drop",
                                        "short write", "cut"};
constexpr const char *kSiteNames[] = {"before joining",  "having joined",  "before committing",
                                      "committed",       "in teardown",    "having left",
                                      "issuing command", "in command",     "before message",
                                      "in part",         "reading message"};

/// The approximate number of pieces into which Action::Short divides a part.
constexpr size_t kPieces = 8;

/// The faults that are armed in this process. Written before a second thread starts.
struct Armed {
  std::vector<Fault> faults;
  std::array<std::atomic<bool>, 8> hasStruck{};
  std::function<void()> onStrike = [] {};

  /// Returns the fault that strikes now, or null if none does.
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

/// Triggers a fault, which may end the process or throw. Returns false if the step must be skipped.
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
    // Exits immediately: an orderly exit would wait for this thread.
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

ssize_t systemWrite(int file, const void *bytes, size_t count, off_t at) {
  return syscall(SYS_pwrite64, file, bytes, count, at);
}

/// The first letters of a rank's messages to its host: "braid rank ...", an offer, a request.
constexpr std::string_view kHelloOfferGet = "bOG";

/// Intercepts a rank's messages to its host and its parts for other ranks. Used only by the host
/// thread.
class Outgoing {
public:
  ssize_t send(int socket, const msghdr *message, int flags) {
    const iovec &part = message->msg_iov[0];
    const char kind = part.iov_len == 0 ? ' ' : *static_cast<const char *>(part.iov_base);
    if (kHelloOfferGet.find(kind) != std::string_view::npos) {
      socket_ = socket;
      begin(kind);
    }
    return syscall(SYS_sendmsg, socket, message, flags);
  }

  ssize_t write(int file, const void *bytes, size_t count, off_t at) {
    if (left_ > 0) {
      left_ -= std::min(left_, piece_);
      return systemWrite(file, bytes, std::min(count, piece_), at);
    }
    begin(kPart);
    const Fault *fault = armed.take(Site::SendHalf, static_cast<uint32_t>(kinds_.size() - 1), 0);
    if (!fault)
      return systemWrite(file, bytes, count, at);
    if (fault->action == Action::Short) {
      left_ = count;
      piece_ = 1 + count / kPieces;
      return write(file, bytes, count, at);
    }
    const ssize_t written = systemWrite(file, bytes, count / 2, at);
    strike(fault);
    return written;
  }
  const std::string &kinds() const { return kinds_; }
  int socket() const { return socket_; }

private:
  void begin(char kind) {
    const auto number = static_cast<uint32_t>(kinds_.size());
    kinds_ += kind;
    while (const Fault *fault = armed.take(Site::Send, number, 0)) {
      strike(fault);
      if (fault->action == Action::Cut)
        shutdown(socket_, SHUT_WR);
    }
  }

  int socket_ = -1;
  std::string kinds_;
  size_t left_ = 0; ///< remaining bytes of a part that is written in pieces
  size_t piece_ = 1;
};
Outgoing outgoing;

/// Intercepts the messages from the host to a rank.
class Incoming {
public:
  ssize_t receive(int socket, msghdr *message, int flags) {
    const ssize_t got = syscall(SYS_recvmsg, socket, message, flags);
    if (socket != outgoing.socket() || got <= 0)
      return got;
    strike(armed.take(Site::Receive, static_cast<uint32_t>(kinds_.size()), 0));
    kinds_ += *static_cast<const char *>(message->msg_iov[0].iov_base);
    return got;
  }
  const std::string &kinds() const { return kinds_; }

private:
  std::string kinds_;
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
    return site == Site::SendHalf;
  case Action::Cut:
    return site == Site::Send;
  case Action::Throw:
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

extern "C" ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) {
  return braid::test::outgoing.write(file, bytes, count, at);
}
