//===- tests/api/session_test.cpp - sessions as an embedding program uses them ----------------===//
//
// Includes public headers only, like a program that embeds Braid.
//
//===----------------------------------------------------------------------------------------===//

#include "api/fusion.h"
#include "api/session.h"
#include "tests/support/number_from.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __SANITIZE_THREAD__ // ThreadSanitizer replaces these operators
// -- Counting allocations. --

namespace {

std::atomic<size_t> allocations{0};

void *counted(size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes == 0 ? 1 : bytes))
    return memory;
  throw std::bad_alloc();
}

} // namespace

void *operator new(size_t bytes) { return counted(bytes); }
void *operator new[](size_t bytes) { return counted(bytes); }
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, size_t) noexcept { std::free(memory); }
#endif

namespace braid::test {
namespace {

using testing::HasSubstr;

int64_t cases(int64_t otherwise) {
  return static_cast<int64_t>(test::numberFrom("BRAID_CASES", static_cast<uint64_t>(otherwise)));
}

/// Returns C = A * B, where each rank has a block of the rows of A and computes all of C.
FusionText gather(int64_t ranks, int64_t rows, int64_t depth, int64_t columns) {
  FusionText f("gather_matmul");
  const Extent d = f.parameter("D", ranks), m = f.parameter("M", rows);
  f.mesh(d);
  f.input("A", DType::F32, {didx(d), plain(m / d), plain(depth)});
  f.input("B", DType::F32, {plain(depth), plain(columns)});
  f.define("C", "matmul %A, %B", DType::F32, {stream(d), plain(m / d), plain(columns)});
  f.output({"C"});
  return f;
}

/// Returns a matmul whose contracted axis is split over the ranks. Each rank obtains a block of the
/// rows of the sum.
FusionText scatter(int64_t ranks, int64_t rows, int64_t depth, int64_t columns) {
  FusionText f("matmul_scatter");
  const Extent d = f.parameter("D", ranks), m = f.parameter("M", rows);
  f.mesh(d);
  f.input("A", DType::F32, {plain(d), plain(m / d), didx(d), plain(depth)});
  f.input("B", DType::F32, {didx(d), plain(depth), plain(columns)});
  f.define("C", "matmul %A, %B", DType::F32, {didx(d), plain(m / d), plain(columns)});
  f.output({"C"});
  return f;
}

struct Kind {
  FusionText (*text)(int64_t, int64_t, int64_t, int64_t);
  const char *schedule;
  bool isGather;
};
constexpr Kind kKinds[] = {{gather, "pairwise;streams=2", true},
                           {scatter, "pairwise;protocol=put;chunks=2", false},
                           {gather, "bulk", true}};
constexpr int64_t kRanks = 3, kRows = 6, kDepth = 4, kColumns = 5, kBlock = kRows / kRanks;

CompiledProgram compiled(const Kind &kind) {
  Result<CompiledProgram> program =
      compileText("session_test", kind.text(kRanks, kRows, kDepth, kColumns).str(),
                  {.schedule = kind.schedule});
  EXPECT_TRUE(program.isOk()) << program.status().message();
  return *program;
}

std::shared_ptr<Job> makeJob(JobOptions options = {}) {
  options.ranks = kRanks;
  Result<std::shared_ptr<Job>> job = Job::create(options);
  EXPECT_TRUE(job.isOk()) << job.status().message();
  return *job;
}

/// The tensors of all ranks for one run, and the expected results. The inputs are small integers,
/// so that sums are exact.
class Arguments {
public:
  Arguments(const CompiledProgram &program, const Kind &kind, int64_t run)
      : program_(program), kind_(kind), ranks_(kRanks) {
    redraw(run);
  }

  /// Refills the inputs for another run, at the same addresses.
  void redraw(int64_t run) {
    run_ = run;
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      Rank &mine = ranks_[static_cast<size_t>(rank)];
      for (size_t i = 0; i < 2; ++i) {
        mine.inputs[i].resize(static_cast<size_t>(elements(program_.inputs()[i])));
        for (size_t e = 0; e < mine.inputs[i].size(); ++e)
          mine.inputs[i][e] = value(rank, i, static_cast<int64_t>(e));
      }
      mine.output.assign(static_cast<size_t>(elements(program_.outputs()[0])), -1e9f);
    }
  }

  std::vector<RankTensors> tensors() {
    std::vector<RankTensors> all;
    for (Rank &rank : ranks_)
      all.push_back({{{rank.inputs[0].data(), program_.inputs()[0]},
                      {rank.inputs[1].data(), program_.inputs()[1]}},
                     {{rank.output.data(), program_.outputs()[0]}}});
    return all;
  }

  void expectRight() const {
    for (int64_t rank = 0; rank < kRanks; ++rank)
      for (int64_t i = 0; i < static_cast<int64_t>(ranks_[rank].output.size()); ++i)
        ASSERT_EQ(ranks_[rank].output[i], wanted(rank, i / kColumns, i % kColumns))
            << "run " << run_ << ", rank " << rank << ", element " << i;
  }

private:
  struct Rank {
    std::vector<float> inputs[2];
    std::vector<float> output;
  };
  static int64_t elements(const TensorSpec &spec) {
    int64_t count = 1;
    for (int64_t extent : spec.shape)
      count *= extent;
    return count;
  }
  /// B is the same on all ranks, unless its rows are split over them.
  float value(int64_t rank, size_t input, int64_t element) const {
    const int64_t who = kind_.isGather && input == 1 ? 0 : rank;
    return static_cast<float>((run_ * 7 + who * 5 + static_cast<int64_t>(input) * 3 + element) %
                              11);
  }
  float product(int64_t rank, int64_t row, int64_t column) const {
    float sum = 0;
    for (int64_t k = 0; k < kDepth; ++k)
      sum +=
          ranks_[rank].inputs[0][row * kDepth + k] * ranks_[rank].inputs[1][k * kColumns + column];
    return sum;
  }
  float wanted(int64_t rank, int64_t row, int64_t column) const {
    if (kind_.isGather)
      return product(row / kBlock, row % kBlock, column);
    float sum = 0;
    for (int64_t other = 0; other < kRanks; ++other)
      sum += product(other, rank * kBlock + row, column);
    return sum;
  }

  const CompiledProgram program_;
  const Kind &kind_;
  int64_t run_ = 0;
  std::vector<Rank> ranks_;
};

std::unique_ptr<Session> prepare(const std::shared_ptr<Job> &job, const CompiledProgram &program) {
  auto session = Session::prepare(job, program);
  EXPECT_TRUE(session.isOk()) << session.status().message();
  return std::move(*session);
}
std::unique_ptr<Session> prepare(const std::shared_ptr<Job> &job) {
  return prepare(job, compiled(kKinds[0]));
}

/// Runs once, waits, and compares the results.
void expectRuns(Job &job, Session &session, const Arguments &arguments,
                const std::vector<RankTensors> &tensors) {
  ASSERT_TRUE(session.run(tensors).isOk());
  const Status status = job.synchronize();
  ASSERT_TRUE(status.isOk()) << status.message();
  arguments.expectRight();
}

/// Alternates between the sessions of a job. Each run uses the next stream, and several runs are in
/// flight at a time.
void expectTurnsRight(Job &job, std::vector<std::unique_ptr<Session>> &sessions, int64_t runs) {
  constexpr int64_t kStreams = 10, kInFlight = 12;
  for (int64_t run = 0; run < runs;) {
    std::vector<std::unique_ptr<Arguments>> inFlight;
    for (; inFlight.size() < kInFlight; ++run) {
      const size_t kind = static_cast<size_t>(run) % std::size(kKinds);
      inFlight.push_back(std::make_unique<Arguments>(sessions[kind]->program(), kKinds[kind], run));
      Result<void *> stream = job.stream(static_cast<uint32_t>(run % kStreams));
      ASSERT_TRUE(stream.isOk());
      const Status status = sessions[kind]->run(inFlight.back()->tensors(), *stream);
      ASSERT_TRUE(status.isOk()) << status.message();
    }
    const Status status = job.synchronize();
    ASSERT_TRUE(status.isOk()) << status.message();
    for (const auto &each : inFlight)
      each->expectRight();
  }
}

std::vector<std::unique_ptr<Session>> prepareAll(const std::shared_ptr<Job> &job) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (const Kind &kind : kKinds)
    sessions.push_back(prepare(job, compiled(kind)));
  return sessions;
}

TEST(SessionTest, SeveralTakeTurnsOnManyStreams) {
  const std::shared_ptr<Job> job = makeJob();
  auto sessions = prepareAll(job);
  expectTurnsRight(*job, sessions, cases(3000));
  EXPECT_TRUE(job->commit().isOk());
}

TEST(SessionTest, ReplaysAndRunsTakeTurns) {
  const std::shared_ptr<Job> job = makeJob();
  auto sessions = prepareAll(job);
  std::vector<std::unique_ptr<Arguments>> captured;
  for (size_t kind = 0; kind < std::size(kKinds); ++kind) {
    captured.push_back(
        std::make_unique<Arguments>(sessions[kind]->program(), kKinds[kind], int64_t(kind)));
    const Status status = sessions[kind]->capture(captured[kind]->tensors());
    ASSERT_TRUE(status.isOk()) << status.message();
  }
  for (int64_t run = 0; run < cases(1000); ++run) {
    const auto kind = static_cast<size_t>(run) % std::size(kKinds);
    Result<void *> stream = job->stream(static_cast<uint32_t>(run % 10));
    ASSERT_TRUE(stream.isOk());
    captured[kind]->redraw(run);
    Arguments eager(sessions[kind]->program(), kKinds[kind], run + 1);
    ASSERT_TRUE(sessions[kind]->replay(*stream).isOk());
    ASSERT_TRUE(sessions[kind]->run(eager.tensors(), *stream).isOk());
    ASSERT_TRUE(sessions[kind]->replay(*stream).isOk());
    const Status status = job->synchronize();
    ASSERT_TRUE(status.isOk()) << status.message();
    captured[kind]->expectRight();
    eager.expectRight();
    EXPECT_EQ(sessions[kind]->runs() % 3, 0);
  }
  EXPECT_TRUE(job->commit().isOk());
}

/// A program for one rank: C = A * B with 2x2 matrices of f64. The test sets B to the identity.
constexpr const char *kAlone = "fusion @alone { mesh [0 .. 1) %A = input f64[2, 2] "
                               "%B = input f64[2, 2] %C = matmul %A, %B : f64[2, 2] output %C }";

/// Uses more sets of addresses than the session caches, and uses some of them often. Results must
/// be correct for new sets, cached sets, and sets that have been evicted from the cache.
TEST(SessionTest, RunsAtAddressesThatComeBack) {
  Result<std::shared_ptr<Job>> job = Job::create({.ranks = 1});
  ASSERT_TRUE(job.isOk()) << job.status().message();
  Result<CompiledProgram> program = compileText("t", kAlone);
  ASSERT_TRUE(program.isOk()) << program.status().message();
  Result<std::unique_ptr<Session>> session = Session::prepare(*job, *program);
  ASSERT_TRUE(session.isOk()) << session.status().message();
  struct Set {
    double a[4], b[4], c[4];
  };
  std::vector<Set> sets(400);
  std::vector<void *> streams = {*(*job)->stream(0), *(*job)->stream(1)};
  for (size_t run = 0; run < 2000; ++run) {
    Set &set = sets[run % 3 == 0 ? run / 3 % sets.size() : run % 7];
    const auto value = static_cast<double>(run);
    set = {{value, 1, 2, 3}, {1, 0, 0, 1}, {-1, -1, -1, -1}};
    void *const addresses[] = {set.a, set.b, set.c};
    const Status status = (*session)->runAt(addresses, streams[run % 2]);
    ASSERT_TRUE(status.isOk()) << status.message();
    ASSERT_TRUE((*job)->synchronize().isOk());
    ASSERT_EQ(set.c[0], value);
    ASSERT_EQ(set.c[3], 3);
  }
  EXPECT_EQ((*session)->runs(), 2000);
  void *const none[] = {sets[0].a, nullptr, sets[0].c}, *const few[] = {sets[0].a};
  EXPECT_THAT((*session)->runAt(none).message(), HasSubstr("input 1 (%B): expected f64[2, 2]"));
  EXPECT_THAT((*session)->runAt(few).message(), HasSubstr("expected 3 addresses, got 1"));
  EXPECT_EQ((*session)->runs(), 2000);
  // After a failure, runs fail both for new and for cached sets of addresses.
  (*job)->abort({StatusCode::PeerFailed, "enough"});
  void *const known[] = {sets[0].a, sets[0].b, sets[0].c};
  void *const others[] = {sets[0].a, sets[0].b, sets[1].c};
  EXPECT_EQ((*session)->runAt(known).message(), "enough");
  EXPECT_EQ((*session)->runAt(others).message(), "enough");
  EXPECT_EQ((*session)->runs(), 2000);
}

TEST(SessionTest, EveryOrderOfStreamsIsRight) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::shared_ptr<Job> job = makeJob({.scheduleSeed = seed});
    auto sessions = prepareAll(job);
    expectTurnsRight(*job, sessions, 24);
  }
}

// -- Tensors that do not match the program. --

struct Mistake {
  const char *name;
  void (*make)(RankTensors &tensors);
  const char *message;
};
const int64_t kFourAxes[] = {1, kBlock, kDepth, 1}, kOtherRows[] = {1, kBlock + 1, kDepth};
void *moved(void *data, int64_t bytes) { return static_cast<char *>(data) + bytes; }
const Mistake kMistakes[] = {
    {"type", [](RankTensors &t) { t.inputs[0].dtype = DType::BF16; },
     "input 0 (%A): expected f32[1, 2, 4], got bf16[1, 2, 4]"},
    {"axes", [](RankTensors &t) { t.inputs[0].shape = kFourAxes; },
     "input 0 (%A): expected f32[1, 2, 4], got f32[1, 2, 4, 1]"},
    {"extent", [](RankTensors &t) { t.inputs[0].shape = kOtherRows; },
     "input 0 (%A): expected f32[1, 2, 4], got f32[1, 3, 4]"},
    {"null", [](RankTensors &t) { t.outputs[0].data = nullptr; },
     "output 0 (%C): expected f32[3, 2, 5], got null"},
    {"alignment", [](RankTensors &t) { t.inputs[1].data = moved(t.inputs[1].data, 2); },
     "input 1 (%B): expected an address that is a multiple of 4 bytes"},
    {"too few", [](RankTensors &t) { t.inputs.pop_back(); }, "expected 2 inputs, got 1"},
    {"too many", [](RankTensors &t) { t.outputs.push_back(t.outputs[0]); },
     "expected 1 output, got 2"},
    // The input is smaller, so it overlaps only this output, wherever other tensors are.
    {"overlap", [](RankTensors &t) { t.inputs[0].data = moved(t.outputs[0].data, 8); },
     "output 0 (%C): expected memory that no other tensor uses, got memory that overlaps input 0 "
     "(%A)"},
};

TEST(SessionTest, WrongTensorsAreNamedAndNothingIsIssued) {
  const std::shared_ptr<Job> job = makeJob();
  auto session = prepare(job);
  Arguments arguments(session->program(), kKinds[0], 1);
  for (const Mistake &mistake : kMistakes)
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      std::vector<RankTensors> tensors = arguments.tensors();
      mistake.make(tensors[rank]);
      const Status status = session->run(tensors);
      EXPECT_EQ(status.code(), StatusCode::BadInput) << mistake.name;
      EXPECT_THAT(status.message(), HasSubstr(mistake.message));
      EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(rank) + ": "));
    }
  EXPECT_EQ(session->runs(), 0);
  std::vector<RankTensors> tensors = arguments.tensors();
  EXPECT_EQ(session->run(std::span(tensors).first(2)).message(),
            "expected tensors for 3 ranks, got tensors for 2");
  EXPECT_EQ(session->run(tensors, reinterpret_cast<void *>(77)).code(), StatusCode::BadInput);
  expectRuns(*job, *session, arguments, tensors);
}

/// Several ranks of a process may read the same memory, but no rank may write to memory that
/// another rank uses.
TEST(SessionTest, OutputsMeetNoTensorOfAnotherRank) {
  struct {
    size_t writer, other;
    Tensor &(*at)(RankTensors &tensors);
    const char *what;
  } const kMeetings[] = {
      {0, 2, [](RankTensors &t) -> Tensor & { return t.inputs[0]; }, "input 0 (%A) of rank 2"},
      {2, 0, [](RankTensors &t) -> Tensor & { return t.inputs[1]; }, "input 1 (%B) of rank 0"},
      {0, 1, [](RankTensors &t) -> Tensor & { return t.outputs[0]; }, "output 0 (%C) of rank 1"},
  };
  const std::shared_ptr<Job> job = makeJob();
  auto session = prepare(job);
  Arguments arguments(session->program(), kKinds[0], 1);
  for (const auto &[writer, other, at, what] : kMeetings) {
    std::vector<RankTensors> tensors = arguments.tensors();
    at(tensors[other]).data = tensors[writer].outputs[0].data;
    const std::string wanted =
        "rank " + std::to_string(writer) +
        ": output 0 (%C): expected memory that no other tensor uses, got memory that overlaps " +
        what;
    EXPECT_EQ(session->run(tensors).message(), wanted);
    EXPECT_EQ(session->capture(tensors).message(), wanted);
  }
  EXPECT_EQ(session->runs(), 0);
  std::vector<RankTensors> tensors = arguments.tensors();
  for (RankTensors &each : tensors)
    each.inputs[1].data = tensors[0].inputs[1].data; // equal on all ranks
  expectRuns(*job, *session, arguments, tensors);
}

TEST(SessionTest, WhatCannotBePreparedOrReplayedSaysWhy) {
  const std::shared_ptr<Job> job = makeJob();
  const auto program = compileText("t", gather(2, 4, 2, 2).str());
  ASSERT_TRUE(program.isOk());
  EXPECT_EQ(Session::prepare(job, *program).status().message(),
            "@gather_matmul_pairwise is for 2 ranks, but the job has 3");
  const auto reproducible = compileText("t", gather(3, 6, 2, 2).str(), {.reproducible = true});
  ASSERT_TRUE(reproducible.isOk());
  EXPECT_THAT(Session::prepare(job, *reproducible).status().message(),
              HasSubstr("set JobOptions::reproducible"));
  auto session = prepare(job);
  EXPECT_THAT(session->replay().message(), HasSubstr("capture() must be called before replay()"));
  EXPECT_THAT(session->runAt({}).message(), HasSubstr("expected tensors for 3 ranks"));
}

TEST(JobTest, WhatCannotBeMadeSaysWhy) {
  EXPECT_EQ(Job::create({.backend = "tpu", .ranks = 2}).status().code(), StatusCode::Unsupported);
  EXPECT_EQ(Job::create({}).status().message(), "expected at least 1 rank, got 0");
  EXPECT_THAT(Job::join({}).status().message(),
              HasSubstr("start it with torchrun, mpirun or srun"));
}

TEST(JobTest, ClosesOnceItsSessionsHaveEnded) {
  const std::shared_ptr<Job> job = makeJob();
  auto session = prepare(job);
  EXPECT_THAT(job->close().message(), HasSubstr("cannot close the job: rank 0 still has 1 of its "
                                                "sessions open; close all sessions first"));
  Arguments arguments(session->program(), kKinds[0], 1);
  ASSERT_TRUE(session->run(arguments.tensors()).isOk()) << "it goes on";
  session.reset(); // with a run in flight
  EXPECT_TRUE(job->close().isOk());
  arguments.expectRight();
  EXPECT_TRUE(job->close().isOk()) << "it is";
  for (const Status &status :
       {job->synchronize(), job->commit(), job->stream(0).status(),
        job->compileText("t", "").status(), Session::prepare(job, compiled(kKinds[0])).status()})
    EXPECT_EQ(status.message(), "the job is closed");
  EXPECT_EQ(job->fail(Status(StatusCode::PeerFailed, "why")).message(), "why");
  EXPECT_EQ(job->usage().sessions, 0);
  EXPECT_EQ(job->ranks(), 0);
}

// -- Resources of a job. --

int64_t countFiles(const char *folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}
int64_t residentKiB() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * 4;
}

TEST(SessionTest, AThousandLeaveNothingBehind) {
  const std::shared_ptr<Job> job = makeJob();
  const CompiledProgram programs[] = {compiled(kKinds[0]), compiled(kKinds[1])};
  int64_t files = 0, threads = 0, resident = 0;
  const int64_t count = cases(1000);
  for (int64_t i = 0; i < count; ++i) {
    auto session = Session::prepare(job, programs[i % 2]);
    ASSERT_TRUE(session.isOk()) << session.status().message();
    EXPECT_EQ(job->usage().sessions, 1);
    EXPECT_GT(job->usage().bytes, 0);
    Arguments arguments((*session)->program(), kKinds[i % 2], i);
    ASSERT_TRUE((*session)->run(arguments.tensors()).isOk());
    if (i % 3 == 0)
      session->reset(); // with a run in flight
    ASSERT_TRUE(job->synchronize().isOk());
    arguments.expectRight();
    if (i == 20) {
      files = countFiles("/proc/self/fd");
      threads = countFiles("/proc/self/task");
      resident = residentKiB();
    }
  }
  EXPECT_EQ(job->usage().sessions, 0);
  EXPECT_EQ(job->usage().bytes, 0);
  EXPECT_EQ(countFiles("/proc/self/fd"), files);
  EXPECT_EQ(countFiles("/proc/self/task"), threads);
#ifndef __SANITIZE_THREAD__ // ThreadSanitizer's shadow memory grows
  EXPECT_LT(residentKiB(), resident + 4096);
#endif
}

/// Joins a job whose only rank is this process. Unlike a rank that is a thread, this rank uses the
/// connections and the shared memory of a job of processes.
std::shared_ptr<Job> joinAlone() {
  const std::string name = "alone " + std::to_string(getpid());
  auto job = Job::join({.place = JobPlace{.rank = 0, .ranks = 1, .name = name}});
  EXPECT_TRUE(job.isOk()) << job.status().message();
  return *job;
}

TEST(JobTest, APlaceIsARankOfItsJob) {
  const auto refusal = [](int64_t rank, int64_t ranks) {
    return Job::join({.place = JobPlace{.rank = rank, .ranks = ranks, .name = "refused"}})
        .status()
        .message();
  };
  EXPECT_EQ(refusal(0, 0), "JobOptions::place: expected at least 1 rank, got 0");
  EXPECT_EQ(refusal(2, 2), "JobOptions::place: expected a rank from 0 to 1, got rank 2 of 2 ranks");
}

CompiledProgram compiledFor(Job &job, int64_t rows) {
  auto program = job.compileText("t.braid", gather(job.ranks(), rows, 64, 4).str());
  EXPECT_TRUE(program.isOk()) << program.status().message();
  return *program;
}

#ifndef __SANITIZE_THREAD__
/// Counts allocations, because measured times would be unreliable.
TEST(SessionTest, PreparesAndEndsAsFastHoweverManyThereAre) {
  const std::shared_ptr<Job> job = joinAlone();
  std::vector<std::unique_ptr<Session>> sessions;
  auto countPreparing = [&](size_t upTo) {
    size_t count = 0;
    while (sessions.size() < upTo) {
      const CompiledProgram program = compiledFor(*job, 8);
      const size_t before = allocations;
      sessions.push_back(std::move(*Session::prepare(job, program)));
      count = allocations - before;
    }
    return count;
  };
  auto countEnding = [&] {
    const size_t before = allocations;
    sessions.pop_back();
    return allocations - before;
  };
  const size_t ofTenth = countPreparing(10), endOfTenth = countEnding();
  const size_t ofLast = countPreparing(200), endOfLast = countEnding();
  EXPECT_LE(ofLast, ofTenth + 20);
  EXPECT_LE(endOfLast, endOfTenth + 2);
}
#endif

/// Each session is larger than the previous one, so it does not fit into freed memory.
TEST(SessionTest, WhatSessionsHeldIsGivenBack) {
  for (const std::shared_ptr<Job> &job : {makeJob(), joinAlone()}) {
    EXPECT_EQ(job->usage().held, 0);
    int64_t most = 0;
    for (int64_t rows = 64; rows < 16384; rows += 768) {
      auto session = Session::prepare(job, compiledFor(*job, rows * job->ranks()));
      ASSERT_TRUE(session.isOk()) << session.status().message();
      const JobUsage usage = job->usage();
      EXPECT_GE(usage.held, usage.bytes) << "what it holds is counted";
      EXPECT_LE(usage.held, usage.bytes + job->hosted() * (3 << 12)) << "pages are whole";
      EXPECT_EQ(usage.mostHeld * job->hosted(), usage.held) << "all ranks hold the same";
      most = usage.held;
    }
    EXPECT_EQ(job->usage().bytes, 0);
    EXPECT_EQ(job->usage().held, most) << "a run may use what its session held";
    ASSERT_TRUE(job->giveBack().isOk());
    EXPECT_EQ(job->usage().held, 0);
    EXPECT_EQ(job->usage().mostHeld, 0);
  }
}

TEST(JobTest, MarksArePassedWhenTheirRunsAreOver) {
  const std::shared_ptr<Job> job = makeJob();
  EXPECT_EQ(job->passedMarks(), 0);
  auto session = Session::prepare(job, compiled(kKinds[0]));
  Arguments arguments((*session)->program(), kKinds[0], 1);
  ASSERT_TRUE((*session)->run(arguments.tensors()).isOk());
  EXPECT_EQ(job->mark(), 1);
  EXPECT_EQ(job->mark(), 2);
  ASSERT_TRUE(job->synchronize().isOk());
  EXPECT_EQ(job->passedMarks(), 2);
}

TEST(SessionTest, SessionsStayWithinTheBoundOfTheirJob) {
  int64_t each = 0;
  {
    const std::shared_ptr<Job> job = makeJob();
    auto session = prepare(job);
    each = job->usage().bytes / kRanks;
  }
  ASSERT_GT(each, 0);
  const std::shared_ptr<Job> job = makeJob({.mostBytes = 2 * each});
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 2; ++i)
    sessions.push_back(prepare(job));
  const auto refused = Session::prepare(job, compiled(kKinds[0]));
  EXPECT_EQ(refused.status().code(), StatusCode::Unsupported);
  EXPECT_THAT(refused.status().message(), HasSubstr("JobOptions::mostBytes allows"));
  EXPECT_EQ(job->usage().sessions, 2);
  sessions.pop_back();
  auto session = prepare(job); // the job must still work
  Arguments arguments(session->program(), kKinds[0], 3);
  expectRuns(*job, *session, arguments, arguments.tensors());
}

TEST(SessionTest, AFailureIsThatOfAllAndStays) {
  const std::shared_ptr<Job> job = makeJob();
  auto session = prepare(job);
  Arguments arguments(session->program(), kKinds[0], 1);
  ASSERT_TRUE(session->capture(arguments.tensors()).isOk());
  EXPECT_EQ(job->fail({StatusCode::PeerFailed, "enough"}).message(), "enough");
  EXPECT_EQ(session->run(arguments.tensors()).message(), "enough");
  EXPECT_EQ(session->replay().message(), "enough");
  EXPECT_EQ(session->capture(arguments.tensors()).message(), "enough");
  EXPECT_EQ(job->synchronize().message(), "enough");
  EXPECT_FALSE(Session::prepare(job, compiled(kKinds[1])).isOk());
}

// -- Choosing a schedule. --

/// Stores measurements in a folder that only this test uses.
class ChoiceTest : public testing::Test {
protected:
  ChoiceTest() {
    std::filesystem::remove_all(folder_);
    setenv("BRAID_CACHE_DIR", folder_.c_str(), 1);
  }
  ~ChoiceTest() override {
    unsetenv("BRAID_CACHE_DIR");
    std::filesystem::remove_all(folder_);
  }
  static Result<CompiledProgram> choose(Job &job, const Kind &kind, const char *schedule = "auto",
                                        double seconds = 0.05) {
    return job.compileText("session_test", kind.text(kRanks, kRows, kDepth, kColumns).str(),
                           {.schedule = schedule, .autoSeconds = seconds});
  }
  const std::string folder_ = testing::TempDir() + "session_test_choice" + std::to_string(getpid());
};

/// Chooses while runs of another session are in flight; that session still works afterwards.
TEST_F(ChoiceTest, AutoMeasuresAndIsKnownAfterwards) {
  for (const Kind &kind : kKinds) {
    const std::shared_ptr<Job> job = makeJob();
    auto before = Session::prepare(job, compiled(kKinds[0]));
    ASSERT_TRUE(before.isOk());
    Arguments early((*before)->program(), kKinds[0], 1), late((*before)->program(), kKinds[0], 2);
    ASSERT_TRUE((*before)->run(early.tensors(), *job->stream(3)).isOk());
    const int64_t bytes = job->usage().bytes;
    std::filesystem::remove_all(folder_);
    const auto program = choose(*job, kind);
    ASSERT_TRUE(program.isOk()) << program.status().message();
    early.expectRight();
    EXPECT_THAT(program->choice(), testing::MatchesRegex("[a-z]+.*: .*"));
    EXPECT_THAT(program->trials(), HasSubstr("  chosen: " + program->choice() + "\n"));
    EXPECT_EQ(job->usage().sessions, 1);
    EXPECT_EQ(job->usage().bytes, bytes);
    auto session = Session::prepare(job, *program);
    ASSERT_TRUE(session.isOk()) << session.status().message();
    Arguments arguments(*program, kind, 3);
    ASSERT_TRUE((*session)->run(arguments.tensors()).isOk());
    ASSERT_TRUE((*before)->run(late.tensors(), *job->stream(2)).isOk());
    const auto again = choose(*job, kind);
    ASSERT_TRUE(again.isOk()) << again.status().message();
    arguments.expectRight();
    late.expectRight();
    EXPECT_THAT(again->choice(), HasSubstr(": chosen earlier on this machine"));
    EXPECT_EQ(again->str(), program->str());
    EXPECT_TRUE(job->commit().isOk());
  }
}

TEST_F(ChoiceTest, WhatIsNamedIsNotVaried) {
  const std::shared_ptr<Job> job = makeJob();
  const auto named = choose(*job, kKinds[1], kKinds[1].schedule);
  ASSERT_TRUE(named.isOk()) << named.status().message();
  EXPECT_EQ(named->str(), compiled(kKinds[1]).str());
  EXPECT_EQ(named->choice() + named->trials(), "");
  const auto unnamed = choose(*job, kKinds[0], "");
  ASSERT_TRUE(unnamed.isOk());
  EXPECT_EQ(unnamed->choice(), "") << "the host's own cores do as the default says";
  EXPECT_THAT(unnamed->name(), testing::EndsWith("_pairwise"));
  const auto open = choose(*job, kKinds[0], "auto;chunks=2;protocol=put", 0);
  ASSERT_TRUE(open.isOk()) << open.status().message();
  EXPECT_THAT(open->choice(), HasSubstr(";protocol=put;chunks=2"));
  // The schedule pairwise does not support sums=gemm.
  const auto fitting = choose(*job, kKinds[1], "auto;sums=gemm", 0);
  ASSERT_TRUE(fitting.isOk()) << fitting.status().message();
  EXPECT_THAT(fitting->choice(), HasSubstr("sums=gemm"));
}

TEST_F(ChoiceTest, MistakesSayWhyAndTheJobGoesOn) {
  const std::shared_ptr<Job> job = makeJob();
  auto message = [&](const std::string &text, LoweringOptions options) {
    return job->compileText("t", text, options).status().message();
  };
  const std::string fusion = gather(kRanks, kRows, 2, 2).str();
  EXPECT_THAT(message("fusion", {.schedule = "auto"}), HasSubstr("t:1:7: error:"));
  EXPECT_THAT(message(fusion, {.schedule = "auto;chunks=700"}), HasSubstr("700"));
  EXPECT_THAT(message(fusion, {.schedule = "automatic"}), HasSubstr("got 'automatic'"));
  EXPECT_THAT(message(fusion, {.ranks = 2, .schedule = "auto"}),
              HasSubstr("is for 2 ranks, but the job has 3"));
  EXPECT_THAT(message(fusion, {.schedule = "auto;launch=graph"}),
              HasSubstr("requires the cuda backend"));
  EXPECT_THAT(message(fusion, {.schedule = "auto", .reproducible = true}),
              HasSubstr("set JobOptions::reproducible"));
  EXPECT_THAT(message(fusion, {.schedule = "auto", .autoSeconds = -1}),
              HasSubstr("expected autoSeconds to be at least 0, got -1"));
  EXPECT_THAT(message(compiled(kKinds[0]).str(), {.schedule = "auto"}),
              HasSubstr("which has already been lowered"));
  EXPECT_THAT(compileText("t", fusion, {.schedule = "auto"}).status().message(),
              HasSubstr("call Job::compileText() instead"));
  EXPECT_EQ(job->compileFile("/nowhere.braid").status().code(), StatusCode::BadInput);
  EXPECT_TRUE(choose(*job, kKinds[0], "auto", 0).isOk());
}

#ifndef __SANITIZE_THREAD__ // ThreadSanitizer has its own heap and is slow
TEST_F(ChoiceTest, TrialsLeaveNothingBehind) {
  setenv("BRAID_CACHE_DIR", "none", 1);
  const std::shared_ptr<Job> job = makeJob();
  auto heap = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  int64_t files = 0, threads = 0;
  size_t used = 0;
  for (int i = 0; i < 24; ++i) {
    const auto program = choose(*job, kKinds[i % 2]);
    ASSERT_TRUE(program.isOk()) << program.status().message();
    EXPECT_EQ(job->usage().sessions + job->usage().bytes, 0);
    if (i == 7) {
      files = countFiles("/proc/self/fd");
      threads = countFiles("/proc/self/task");
      used = heap();
    }
  }
  EXPECT_EQ(countFiles("/proc/self/fd"), files);
  // Allows for one more candidate with 8 streams. If each of the last 16 choices left one thread
  // per rank behind, the number of threads would exceed this limit.
  EXPECT_LE(countFiles("/proc/self/task"), threads + 7 * kRanks);
  EXPECT_LT(heap(), used + (size_t(2) << 20));
}
#endif

TEST_F(ChoiceTest, OfAJobThatHasFailedIsItsFailure) {
  const std::shared_ptr<Job> job = makeJob();
  EXPECT_EQ(job->fail({StatusCode::PeerFailed, "enough"}).message(), "enough");
  EXPECT_EQ(choose(*job, kKinds[0]).status().message(), "enough");
}

// -- A fork. --

/// Calls the API in a forked child process. Returns the number of calls with an unexpected result,
/// which becomes the exit code of the child.
int useAsAFork(std::shared_ptr<Job> job, std::unique_ptr<Session> session,
               const CompiledProgram &program) {
  alarm(20);
  const Status statuses[] = {job->synchronize(),
                             job->commit(),
                             job->close(),
                             job->fail({StatusCode::PeerFailed, "mine"}),
                             job->stream(0).status(),
                             session->run(std::span<const Tensor>(), std::span<const Tensor>()),
                             session->runAt({}),
                             session->replay(),
                             session->capture({}),
                             Session::prepare(job, program).status()};
  int wrong = 0;
  for (const Status &status : statuses)
    wrong += status.message() !=
             "a job can be used only by the process that joined it, not by a forked child";
  job->abort({StatusCode::PeerFailed, "mine"});
  session.reset();
  job.reset();
  return wrong;
}

TEST(ForkTest, AChildCanNeitherUseNorEndTheJob) {
  const std::shared_ptr<Job> job = *Job::create({.ranks = kRanks});
  const CompiledProgram program = compiled(kKinds[0]);
  auto session = prepare(job, program);
  const pid_t child = fork();
  if (child == 0)
    _exit(useAsAFork(job, std::move(session), program));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(job->synchronize().isOk());
  session.reset();
  EXPECT_TRUE(job->close().isOk());
}

// -- Texts. --

TEST(FusionTextTest, MakesWhatAFileWouldHold) {
  EXPECT_EQ(gather(4, 8, 3, 2).str(), R"(fusion @gather_matmul(D = 4, M = 8) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, (M / D), 3]
  %B = input f32[3, 2]
  %C = matmul %A, %B : f32[Stream{D}, (M / D), 2]
  output %C
}
)");
}

TEST(CompiledProgramTest, IsCheckedAndSaysWhatItTakes) {
  const CompiledProgram program = compiled(kKinds[1]);
  EXPECT_TRUE(program.check().isOk());
  EXPECT_EQ(program.ranks(), kRanks);
  ASSERT_EQ(program.inputs().size(), 2u);
  EXPECT_EQ(program.inputs()[0].name, "A");
  EXPECT_EQ(program.inputs()[0].shape, (std::vector<int64_t>{kRanks, kBlock, 1, kDepth}));
  EXPECT_THAT(program.str(), HasSubstr("implements @matmul_scatter"));
}

TEST(CompiledProgramTest, MistakesHaveTheirPlace) {
  const auto wrong = compileText("wrong.braid", "fusion @f(D = 2) {\n  mesh [0 .. E)\n}\n");
  ASSERT_FALSE(wrong.isOk());
  EXPECT_EQ(wrong.status().code(), StatusCode::BadInput);
  EXPECT_THAT(wrong.status().message(), HasSubstr("wrong.braid:2:14: error:"));
  EXPECT_THAT(compileText("t", gather(2, 4, 2, 2).str(), {.schedule = "rong"}).status().message(),
              HasSubstr("rong"));
  EXPECT_EQ(compileFile("/nowhere.braid").status().code(), StatusCode::BadInput);
}

Result<CompiledProgram> racyProgram() {
  return compileText("racy", R"(
program @racy mesh [0 .. 3) (%A: f32[4]) -> (%C: f32[4]) {
  %main = get_current_stream
  set_current_stream stream(0)
  set %C, %A
  set_current_stream %main
}
)");
}

TEST(CompiledProgramTest, AnUnsafeProgramIsRejected) {
  const auto program = racyProgram();
  ASSERT_TRUE(program.isOk()) << program.status().message();
  const Status status = program->check();
  EXPECT_EQ(status.code(), StatusCode::Rejected);
  EXPECT_THAT(status.message(), HasSubstr("@racy is"));
}

TEST(SessionTest, WhatWillRunIsProvedFirst) {
  const auto program = racyProgram();
  const std::shared_ptr<Job> job = makeJob();
  const Status status = Session::prepare(job, *program).status();
  EXPECT_EQ(status.code(), StatusCode::Rejected);
  EXPECT_THAT(status.message(), HasSubstr("@racy is unsafe (race)"));
  EXPECT_TRUE(Session::prepare(job, *program, {.checks = false}).isOk());
}

} // namespace
} // namespace braid::test
