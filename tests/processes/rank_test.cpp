//===- tests/processes/rank_test.cpp - ranks in separate processes ----------------------------===//
//
// Each test forks its ranks while this process has a single thread, hosts their rendezvous, and
// compares the outcomes that they report.
//
//===----------------------------------------------------------------------------------------===//

#include "api/compile/compile.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/queue/command_queue.h"
#include "runtime/execute/executor.h"
#include "runtime/job/bootstrap/client.h"
#include "runtime/job/bootstrap/rendezvous.h"
#include "runtime/plan/specialize.h"
#include "runtime/reference/reference.h"
#include "tests/support/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace braid {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kRanks = 4;
constexpr uint32_t kFaultyRun = 3;

// -- The program. --

struct Pipeline {
  std::unique_ptr<Source> source;
  const Fusion *fusion;
  std::vector<Plan> plans;

  /// Returns the first command of `rank` with that kind.
  uint32_t find(int64_t rank, CommandKind kind) const {
    const std::vector<Command> &commands = plans[static_cast<size_t>(rank)].commands;
    for (uint32_t i = 0; i < commands.size(); ++i)
      if (commands[i].kind == kind)
        return i;
    ADD_FAILURE() << "no such command";
    return 0;
  }
};

Pipeline makePipeline(int64_t rows = 8, Protocol protocol = Protocol::Get) {
  Pipeline made;
  made.source = parseSource("ag.braid", R"(
fusion @ag(D = 4, R = 8) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, R, 16]
  %B = input f32[16, 8]
  %C = matmul %A, %B : f32[Stream{D}, R, 8]
  output %C
})");
  Result<Compiled> compiled =
      compile(*made.source, {.ranks = kRanks,
                             .parameters = {{"R", rows}},
                             .schedule = {Configuration().set(Knob::Protocol, protocol)}});
  EXPECT_TRUE(compiled) << made.source->diags.str();
  made.fusion = compiled->fusion;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    Result<Plan> plan = specialize(*compiled->program, rank, made.source->diags);
    EXPECT_TRUE(plan) << made.source->diags.str();
    made.plans.push_back(std::move(*plan));
  }
  return made;
}

/// Runs the program `runs` times with new inputs, compares all outputs element by element, and then
/// commits once.
Status runPipeline(const Pipeline &pipeline, Cluster &cluster, int64_t rank, uint32_t runs) {
  cluster.setPlans(pipeline.plans);
  Device &device = cluster.device(rank);
  const Plan &plan = pipeline.plans[static_cast<size_t>(rank)];
  Result<std::unique_ptr<Prepared>> prepared = prepare(plan, device, cluster.control(rank));
  if (!prepared)
    return prepared.status();
  Reference reference(*pipeline.fusion, 7);
  std::vector<std::vector<char>> inputs, outputs;
  for (uint32_t buffer : plan.inputs)
    inputs.emplace_back(plan.buffers[buffer].bytes);
  for (uint32_t buffer : plan.outputs)
    outputs.emplace_back(plan.buffers[buffer].bytes);
  for (uint32_t run = 0; run < runs; ++run) {
    std::vector<const void *> from;
    std::vector<void *> to;
    for (size_t i = 0; i < inputs.size(); ++i) {
      reference.fillInput(i, rank, run, inputs[i].data());
      from.push_back(inputs[i].data());
    }
    for (std::vector<char> &output : outputs) {
      std::fill(output.begin(), output.end(), char(0xff)); // fills with NaNs
      to.push_back(output.data());
    }
    (*prepared)->run(from, to);
    if (Status status = device.synchronize(); !status.isOk())
      return status;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (Status status = reference.compare(i, rank, run, outputs[i].data()); !status.isOk())
        return status;
  }
  return cluster.control(rank).commit();
}

// -- Faults. --

/// Calls `act` when `rank` is about to run `command` in the third run.
struct Fault {
  int64_t rank = -1;
  uint32_t command = 0;
  std::function<bool()> act; ///< see CommandObserver::begin()
  bool isEndless = false;
};

class FaultyObserver final : public CommandObserver {
public:
  explicit FaultyObserver(const Fault &fault) : fault_(fault) {}
  bool begin(uint32_t, const QueuedCommand &command) override {
    bool isHere = command.tag.command == fault_.command && command.tag.run == kFaultyRun;
    return isHere ? fault_.act() : true;
  }

private:
  const Fault fault_;
};

// -- Processes. --

struct Verdict {
  int waitStatus = -1;
  int code = -1; ///< StatusCode, or -1 if there was no report
  std::string message;
};

struct Job {
  milliseconds timeout{20000};
  Fault fault = {};
  std::function<Status(Cluster &, int64_t rank)> body;

  std::vector<Verdict> verdicts = {};
  uint32_t committed = 0;
  milliseconds elapsed{0};

  void run();

private:
  struct Child {
    pid_t pid;
    int path, verdict; ///< our ends of the pipes
  };
  Child fork();
  int runChild(int64_t rank, int path, int verdict) const;
};

/// Runs a rank in the child process.
int Job::runChild(int64_t rank, int path, int verdict) const {
  std::string socket;
  for (char byte; read(path, &byte, 1) == 1 && byte != '\n';)
    socket += byte;
  BackendRegistry registry;
  registerCpuBackend(registry, [this](int64_t number) -> std::unique_ptr<CommandObserver> {
    return number == fault.rank ? std::make_unique<FaultyObserver>(fault) : nullptr;
  });
  Result<std::unique_ptr<Client>> client = Client::join(
      socket, {.job = "j", .rank = rank, .ranks = kRanks}, deadlineIn(milliseconds(30000)));
  Status status = client.status();
  bool isStuck = false;
  if (client) {
    ClusterOptions options;
    options.ranks = kRanks;
    options.timeout = timeout;
    Result<std::unique_ptr<Cluster>> cluster =
        registry.find("cpu")->join(options, std::move(*client));
    status = cluster ? body(**cluster, rank) : cluster.status();
    isStuck = cluster && (*cluster)->isStuck();
  }
  EXPECT_EQ(isStuck, fault.rank == rank && fault.isEndless);
  std::string text = std::to_string(static_cast<int>(status.code())) + " " + status.message() +
                     (::testing::Test::HasFailure() ? " but isStuck() is wrong" : "");
  [[maybe_unused]] ssize_t written = write(verdict, text.data(), text.size());
  return static_cast<int>(status.code());
}

Job::Child Job::fork() {
  int path[2], verdict[2];
  EXPECT_EQ(pipe2(path, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(verdict, O_CLOEXEC), 0);
  const int64_t rank = static_cast<int64_t>(verdicts.size());
  pid_t pid = ::fork();
  if (pid == 0) {
    ::close(path[1]);
    ::close(verdict[0]);
    _exit(runChild(rank, path[0], verdict[1]));
  }
  ::close(path[0]);
  ::close(verdict[1]);
  verdicts.emplace_back();
  return {pid, path[1], verdict[0]};
}

std::string readAll(int descriptor) {
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  return text;
}

void Job::run() {
  std::vector<Child> children;
  for (int64_t rank = 0; rank < kRanks; ++rank)
    children.push_back(fork());
  const auto begin = std::chrono::steady_clock::now();
  Result<JobMemory> memory = JobMemory::create(kRanks);
  ASSERT_TRUE(memory);
  Result<RendezvousPlace> place =
      listenForJob({.job = *randomName()}, deadlineIn(std::chrono::seconds(30)));
  ASSERT_TRUE(place) << place.status().message();
  Result<std::unique_ptr<Rendezvous>> rendezvous =
      Rendezvous::start(std::move(*place), *memory, {.job = "j"});
  ASSERT_TRUE(rendezvous) << rendezvous.status().message();
  const std::string line = (*rendezvous)->name() + "\n";
  for (const Child &child : children)
    ASSERT_EQ(write(child.path, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  for (size_t rank = 0; rank < children.size(); ++rank) {
    std::string text = readAll(children[rank].verdict);
    std::istringstream(text) >> verdicts[rank].code;
    verdicts[rank].message = text.substr(std::min(text.size(), text.find(' ') + 1));
    EXPECT_EQ(waitpid(children[rank].pid, &verdicts[rank].waitStatus, 0), children[rank].pid);
    ::close(children[rank].path);
    ::close(children[rank].verdict);
  }
  elapsed = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
  committed = memory->committed();
  rendezvous->reset();
}

/// Returns the outcome that all ranks except `dead` report. Fails the test if they differ.
Verdict theSame(const Job &job, int64_t dead = -1) {
  Verdict first;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const Verdict &verdict = job.verdicts[static_cast<size_t>(rank)];
    if (rank == dead)
      continue;
    if (first.code == -1)
      first = verdict;
    EXPECT_EQ(verdict.code, first.code) << "rank " << rank << ": " << verdict.message;
    EXPECT_EQ(verdict.message, first.message) << "rank " << rank;
    EXPECT_TRUE(WIFEXITED(verdict.waitStatus)) << "rank " << rank;
  }
  return first;
}

class RankTest : public ::testing::Test {
protected:
  Pipeline pipeline_ = makePipeline();

  Job makeJob(uint32_t runs = 10) {
    Job job;
    job.body = [this, runs](Cluster &cluster, int64_t rank) {
      return runPipeline(pipeline_, cluster, rank, runs);
    };
    return job;
  }
  /// Returns a job in which rank 1 calls `act` before its first command of `kind` in the third run.
  Job makeFaulty(CommandKind kind, std::function<bool()> act) {
    Job job = makeJob();
    job.fault = {1, pipeline_.find(1, kind), std::move(act)};
    return job;
  }
};

bool sleepLong() {
  std::this_thread::sleep_for(std::chrono::minutes(10));
  return true;
}

// -- Tests. --

/// Counts the mappings of shared memory.
int64_t countArenas() {
  std::ifstream maps("/proc/self/maps");
  int64_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("braid-arena") != std::string::npos;
  return count;
}

/// Prepares far more programs than the number of arenas that a rank could export, and compares the
/// results of all programs.
TEST_F(RankTest, SixHundredProgramsMapNoMoreThanAFew) {
  std::vector<Pipeline> pipelines;
  for (int64_t rows : {8, 3000, 100, 1000})
    for (Protocol protocol : {Protocol::Get, Protocol::Put})
      pipelines.push_back(makePipeline(rows, protocol));
  Job job;
  job.body = [&](Cluster &cluster, int64_t rank) {
    int64_t arenas = 0;
    for (size_t i = 0; i < 600; ++i) {
      const Pipeline &pipeline = pipelines[i % pipelines.size()];
      if (Status status = runPipeline(pipeline, cluster, rank, i < 16 ? 3 : 1); !status.isOk())
        return status.annotated("program " + std::to_string(i));
      if (i == 16)
        arenas = countArenas();
    }
    if (arenas == 0 || countArenas() > arenas)
      return Status(StatusCode::Internal, "arenas: " + std::to_string(arenas) + ", then " +
                                              std::to_string(countArenas()));
    return Status::ok();
  };
  job.run();
  Verdict verdict = theSame(job);
  EXPECT_EQ(verdict.code, 0) << verdict.message;
  EXPECT_EQ(job.committed, 600u);
}

/// No other process kills the rank: it has to end and report the cause itself.
TEST_F(RankTest, EndlessCommandHoldsNobodyUp) {
  Job job = makeFaulty(CommandKind::Matmul, sleepLong);
  job.fault.isEndless = true;
  job.timeout = milliseconds(500);
  job.run();
  Verdict verdict = theSame(job, 1);
  EXPECT_EQ(verdict.code, static_cast<int>(StatusCode::TimedOut));
  EXPECT_THAT(verdict.message,
              AllOf(StartsWith("no progress for 500 ms: rank 1 is executing \"matmul"),
                    HasSubstr("run 3"), Not(HasSubstr("has not finished"))));
  EXPECT_THAT(job.verdicts[1].message, AllOf(StartsWith(verdict.message),
                                             HasSubstr("a command of rank 1 has not finished")));
  EXPECT_EQ(job.verdicts[1].code, verdict.code);
  EXPECT_TRUE(WIFEXITED(job.verdicts[1].waitStatus));
  EXPECT_LT(job.elapsed, milliseconds(30000));
}

/// The timeout also applies while the host thread is not in synchronize().
TEST_F(RankTest, AWaitOfTheDeviceEndsThoughTheHostIsElsewhere) {
  Job job = makeJob();
  job.timeout = milliseconds(400);
  job.body = [](Cluster &cluster, int64_t rank) {
    Device &device = cluster.device(rank);
    Result<void *> flag = device.allocate(ArenaKind::Symmetric, kFlagStride);
    test::await(device, 0, {}, *flag, 1);
    std::this_thread::sleep_for(milliseconds(1000));
    const auto start = std::chrono::steady_clock::now();
    const Status status = device.synchronize();
    return std::chrono::steady_clock::now() - start < milliseconds(200)
               ? status
               : Status(StatusCode::Internal, "the wait began to count only now");
  };
  job.run();
  EXPECT_EQ(theSame(job).code, static_cast<int>(StatusCode::TimedOut)) << theSame(job).message;
}

TEST_F(RankTest, WorkLeftBehindIsAFailure) {
  Job job = makeJob();
  job.body = [](Cluster &cluster, int64_t rank) {
    Result<void *> flag = cluster.device(rank).allocate(ArenaKind::Symmetric, kFlagStride);
    test::await(cluster.device(rank), 0, {}, *flag, 1);
    if (rank == 3)
      return Status(StatusCode::WrongResult, "left");
    return cluster.device(rank).synchronize();
  };
  job.timeout = milliseconds(120000);
  job.run();
  Verdict verdict = theSame(job, 3);
  EXPECT_EQ(verdict.code, static_cast<int>(StatusCode::PeerFailed));
  EXPECT_EQ(verdict.message, "rank 3 left the job before its work was done");
  EXPECT_LT(job.elapsed, milliseconds(30000));
}

} // namespace
} // namespace braid
