//===- tests/pairs/p2p_faulty.cpp - `braid p2p` on CPU ranks with faulty links ----------------===//
//
// The cpu backend with simulated links between ranks: a copy takes a fixed latency plus a time
// proportional to its size, much longer than the real copy, so that other work on the machine has
// no visible effect. BRAID_TEST_LINKS contains the parameters and faults:
//
//   LATENCY_US BYTES_PER_US HAS_GRAPHS
//   [KIND SOURCE DESTINATION PROTOCOL FACTOR BYTES COUNT OFFSET]...
//
// A fault applies to copies from one device to another with protocol `put` or `get`. If its kind is
// `slow`, these copies take FACTOR times as long. The other kinds apply only to copies of BYTES
// bytes: `hang` never ends, `crash` raises SIGSEGV, `exit` exits with status 3, and `flip` flips a
// bit at OFFSET in copy number COUNT.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/queue/command_queue.h"
#include "runtime/job/bootstrap/environment.h"
#include "tools/command.h"
#include "tools/process.h"

#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <sstream>
#include <thread>

#include <unistd.h>

namespace braid::test {
namespace {

using Clock = std::chrono::steady_clock;

struct LinkFault {
  std::string kind;
  int64_t source = 0, destination = 1; ///< devices
  std::string protocol;
  double factor = 1;
  int64_t bytes = 0, count = 0, offset = 0;
};

struct FaultyLinks {
  double latencyUs = 0, bytesPerUs = 1;
  bool hasGraphs = false;
  std::vector<LinkFault> faults;

  static FaultyLinks parse(const char *text) {
    std::istringstream is(text);
    FaultyLinks links;
    is >> links.latencyUs >> links.bytesPerUs >> links.hasGraphs;
    for (LinkFault fault; is >> fault.kind >> fault.source >> fault.destination >> fault.protocol >>
                          fault.factor >> fault.bytes >> fault.count >> fault.offset;)
      links.faults.push_back(fault);
    return links;
  }
};

/// A copy over a link between two devices.
struct LinkCopy {
  int64_t source, destination; ///< devices
  const char *protocol;
  int64_t bytes;
};

/// The observer of one rank. Its methods may be called concurrently by the workers of all streams.
class LinkObserver final : public CommandObserver {
public:
  LinkObserver(int64_t rank, FaultyLinks links, std::vector<int64_t> devices)
      : rank_(rank), links_(std::move(links)), devices_(std::move(devices)),
        copies_(links_.faults.size()) {}

  /// Waits, before the bytes are copied, for as long as the link would take.
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
    return true;
  }

  /// Flips a bit if a fault requires it, before a signal reports that the bytes have arrived.
  void end(uint32_t, const QueuedCommand &command) override {
    const std::optional<LinkCopy> copy = copyOf(command);
    for (size_t i = 0; copy && i < links_.faults.size(); ++i) {
      const LinkFault &fault = links_.faults[i];
      if (fault.kind == "flip" && fault.bytes == copy->bytes && strikes(fault, *copy) &&
          copies_[i]++ == fault.count)
        static_cast<char *>(command.args.bytes.dst)[fault.offset] ^= 0x10;
    }
  }

private:
  /// Applies a fault to a copy. Returns the factor by which the copy takes longer, unless the fault
  /// ends the process or hangs.
  static double act(const LinkFault &fault, const LinkCopy &copy) {
    if (fault.kind == "slow")
      return fault.factor;
    if (fault.bytes != copy.bytes)
      return 1;
    if (fault.kind == "crash")
      std::raise(SIGSEGV);
    if (fault.kind == "exit")
      _exit(3);
    while (fault.kind == "hang")
      std::this_thread::sleep_for(std::chrono::seconds(1));
    return 1;
  }

  static bool strikes(const LinkFault &fault, const LinkCopy &copy) {
    return fault.source == copy.source && fault.destination == copy.destination &&
           fault.protocol == copy.protocol;
  }

  std::optional<LinkCopy> copyOf(const QueuedCommand &command) const {
    const Plan *plan = command.tag.plan;
    if (command.kind != QueuedCommand::Kind::Copy || !plan)
      return std::nullopt;
    const uint32_t number = plan->commands[command.tag.command].endpoint;
    if (number == kNone)
      return std::nullopt;
    const Endpoint &endpoint = plan->endpoints[number];
    const bool isSend = endpoint.direction == Direction::Send;
    const int64_t mine = devices_[static_cast<size_t>(rank_)],
                  theirs = devices_[static_cast<size_t>(endpoint.peer)];
    return LinkCopy{isSend ? mine : theirs, isSend ? theirs : mine,
                    endpoint.protocol == Protocol::Put ? "put" : "get", command.args.bytes.count};
  }

  const int64_t rank_;
  const FaultyLinks links_;
  const std::vector<int64_t> devices_;
  std::deque<std::atomic<int64_t>> copies_; ///< copies counted for each fault
};

/// Returns the cpu backend, with the links from the environment if this process is a rank.
BackendRegistry faultyBackends() {
  BackendRegistry cpu, registry;
  const char *text = std::getenv("BRAID_TEST_LINKS");
  const Result<std::vector<int64_t>> devices = devicesOfRanks(processEnvironment());
  if (!text || !devices) {
    registerCpuBackend(registry);
    return registry;
  }
  const FaultyLinks links = FaultyLinks::parse(text);
  registerCpuBackend(cpu, [links, devices = *devices](int64_t rank) {
    return std::make_unique<LinkObserver>(rank, links, devices);
  });
  Backend backend = *cpu.find("cpu");
  backend.hasGraphs = links.hasGraphs;
  registry.add(std::move(backend));
  return registry;
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  using namespace braid;
  tools::prepareProcess();
  CLI::App app("The command of the tests.", "p2p_faulty");
  const tools::Command command = tools::addP2p(app, test::faultyBackends);
  return tools::exitCodeOf([&] {
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
      llvm::errs() << error.what() << "\n";
      return 2;
    }
    return command.run();
  });
}
