//===- tests/pairs/link_faults.cpp - CPU ranks whose links have faults, as data ---------------===//

#include "tests/pairs/link_faults.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/queue/command_queue.h"
#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/socket.h"

#include "llvm/ADT/STLExtras.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <ostream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

namespace braid::test {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = LinkFault::Kind;

constexpr const char *kKindNames[] = {"slow", "slow-together", "hang",   "crash",
                                      "exit", "flip",          "bridge", "flip-together"};

/// A copy over a link, as its rank sees it.
struct LinkCopy {
  int64_t source, destination; ///< devices
  LinkPath path;
  int64_t bytes;
  bool isTogether;
};

/// Who is on which bridge, as all processes of one command see it: a lock on a byte of the
/// program's file for each ordered pair, of which nothing is left when its process ends.
class Bridges {
public:
  void enter(const LinkFault &pair) {
    (void)fcntl(file_.get(), F_OFD_SETLK, lockOn(pair, F_RDLCK));
  }
  void leave(const LinkFault &pair) {
    (void)fcntl(file_.get(), F_OFD_SETLK, lockOn(pair, F_UNLCK));
  }
  /// By another process.
  bool isTaken(const LinkFault &pair) const {
    struct flock *lock = lockOn(pair, F_WRLCK);
    return fcntl(file_.get(), F_OFD_GETLK, lock) == 0 && lock->l_type != F_UNLCK;
  }

private:
  static struct flock *lockOn(const LinkFault &pair, short type) {
    thread_local struct flock lock;
    lock = {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start =
        (off_t(getppid()) << 24) + (pair.count << 12) + (pair.source << 6) + pair.destination;
    lock.l_len = 1;
    return &lock;
  }
  FileDescriptor file_{open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
};

/// Of one rank. The workers of its streams call it at the same time.
class LinkObserver final : public CommandObserver {
public:
  LinkObserver(int64_t rank, FaultyLinks links, std::vector<int64_t> devices)
      : rank_(rank), links_(std::move(links)), devices_(std::move(devices)) {}

  /// Takes as long as the link does, before the bytes are copied.
  bool begin(uint32_t, const QueuedCommand &command) override {
    const std::optional<LinkCopy> copy = copyOf(command);
    if (!copy)
      return true;
    const Clock::time_point start = Clock::now();
    double us = links_.latencyUs + static_cast<double>(copy->bytes) / links_.bytesPerUs;
    for (const LinkFault &fault : links_.faults)
      if (strikes(fault, *copy))
        us *= act(fault, *copy);
    std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(
                                              std::chrono::duration<double, std::micro>(us)));
    for (const LinkFault &fault : links_.faults)
      if (fault.kind == Kind::Bridge && strikes(fault, *copy))
        bridges_.leave(fault);
    return true;
  }

  /// Before anybody is told that the bytes are there.
  void end(uint32_t, const QueuedCommand &command, uint32_t) override {
    const std::optional<LinkCopy> copy = copyOf(command);
    if (!copy)
      return;
    for (size_t i = 0; i < links_.faults.size(); ++i) {
      const LinkFault &fault = links_.faults[i];
      if (!strikes(fault, *copy) || fault.bytes != copy->bytes)
        continue;
      std::lock_guard lock(mutex_);
      const bool isWrong = fault.kind == Kind::FlipTogether
                               ? copy->isTogether
                               : fault.kind == Kind::Flip && copies_[i]++ == fault.count;
      if (isWrong)
        static_cast<char *>(command.args.bytes.dst)[fault.offset] ^= 0x10;
    }
  }

private:
  /// What a fault makes of a copy's time, if anybody lives to see it.
  double act(const LinkFault &fault, const LinkCopy &copy) {
    if (fault.kind == Kind::Bridge)
      return cross(fault);
    const bool isOfSize = fault.bytes == copy.bytes;
    if (fault.kind == Kind::Slow || (fault.kind == Kind::SlowTogether && copy.isTogether))
      return fault.factor;
    if (fault.kind == Kind::Crash && isOfSize)
      std::raise(SIGSEGV);
    if (fault.kind == Kind::Exit && isOfSize)
      _exit(3);
    while (fault.kind == Kind::Hang && isOfSize)
      std::this_thread::sleep_for(std::chrono::seconds(1));
    return 1;
  }

  double cross(const LinkFault &own) {
    bridges_.enter(own);
    const bool isShared = llvm::any_of(links_.faults, [&](const LinkFault &other) {
      const bool isBack = other.source == own.destination && other.destination == own.source;
      return other.kind == Kind::Bridge && other.count == own.count && !isBack &&
             bridges_.isTaken(other);
    });
    return isShared ? own.factor : 1;
  }

  static bool strikes(const LinkFault &fault, const LinkCopy &copy) {
    return fault.source == copy.source && fault.destination == copy.destination &&
           (fault.path == LinkPath::All || fault.path == copy.path);
  }

  /// Nothing for what goes over no link: the rest, and reading what the source left with the host.
  std::optional<LinkCopy> copyOf(const QueuedCommand &command) const {
    const Plan *plan = command.tag.plan;
    if (command.kind != QueuedCommand::Kind::Copy || !plan)
      return std::nullopt;
    const uint32_t number = plan->commands[command.tag.command].endpoint;
    if (number == kNone)
      return std::nullopt;
    const Endpoint &endpoint = plan->endpoints[number];
    const bool isSend = endpoint.direction == Direction::Send;
    const bool isHost = plan->program == "through_host";
    if (isHost && !isSend)
      return std::nullopt;
    const int64_t mine = devices_[static_cast<size_t>(rank_)],
                  theirs = devices_[static_cast<size_t>(endpoint.peer)];
    return LinkCopy{isSend ? mine : theirs, isSend ? theirs : mine,
                    isHost                               ? LinkPath::Host
                    : endpoint.protocol == Protocol::Put ? LinkPath::Put
                                                         : LinkPath::Get,
                    command.args.bytes.count, plan->ranks > 2};
  }

  const int64_t rank_;
  const FaultyLinks links_;
  const std::vector<int64_t> devices_;
  Bridges bridges_;
  std::mutex mutex_;
  std::map<size_t, int64_t> copies_; ///< by fault
};

} // namespace

const char *nameOf(LinkFault::Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::ostream &operator<<(std::ostream &os, const LinkFault &fault) {
  return os << nameOf(fault.kind) << ' ' << fault.source << ' ' << fault.destination << ' '
            << static_cast<int>(fault.path) << ' ' << fault.factor << ' ' << fault.bytes << ' '
            << fault.count << ' ' << fault.offset;
}

std::string FaultyLinks::encode() const {
  std::ostringstream os;
  os << latencyUs << ' ' << bytesPerUs << ' ' << hasGraphs;
  for (const LinkFault &fault : faults)
    os << ' ' << fault;
  return os.str();
}

FaultyLinks FaultyLinks::decode(const std::string &text) {
  std::istringstream is(text);
  FaultyLinks links;
  is >> links.latencyUs >> links.bytesPerUs >> links.hasGraphs;
  std::string kind;
  int path = 0;
  for (LinkFault fault; is >> kind >> fault.source >> fault.destination >> path >> fault.factor >>
                        fault.bytes >> fault.count >> fault.offset;) {
    const auto known = llvm::find(kKindNames, kind);
    if (known == std::end(kKindNames))
      break;
    fault.kind = static_cast<Kind>(known - std::begin(kKindNames));
    fault.path = static_cast<LinkPath>(path);
    links.faults.push_back(fault);
  }
  return links;
}

BackendRegistry faultyBackends() {
  BackendRegistry cpu, registry;
  const char *text = std::getenv(kLinksVariable);
  const Result<std::vector<int64_t>> devices = devicesOfRanks(processEnvironment());
  if (!text || !devices) {
    registerCpuBackend(registry);
    return registry;
  }
  const FaultyLinks links = FaultyLinks::decode(text);
  registerCpuBackend(cpu, [links, devices = *devices](int64_t rank) {
    return std::make_unique<LinkObserver>(rank, links, devices);
  });
  Backend backend = *cpu.find("cpu");
  backend.hasGraphs = links.hasGraphs;
  registry.add(std::move(backend));
  return registry;
}

} // namespace braid::test
