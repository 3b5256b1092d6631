//===- tests/gpu/gpu_ranks_test.cpp - ranks on GPUs, tested through the library ---------------===//
//
//   gpu_ranks_test [--ranks N] [--runs R]
//
// Starts a job of processes on 2, 3 and 4 ranks, or on N. Each mode is run R times eagerly (default
// 1,000) and R times replayed. All cases with the same number of ranks share a job, because
// starting a job takes longer than most cases.
//
//===----------------------------------------------------------------------------------------===//

#include "api/compile/plans.h"
#include "api/launch/job_rank.h"
#include "api/ranks/arguments.h"
#include "api/timing/seconds_since.h"
#include "backends/cuda/copy_and_signal.h"
#include "backends/cuda/kernels.h"
#include "runtime/execute/executor.h"
#include "runtime/reference/reference.h"
#include "tests/gpu/gpu_job.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>

namespace {
thread_local size_t newCalls = 0;
}

// Counts allocations. If these operators were inlined, GCC 12 would report a mismatched delete.
[[gnu::noinline]] void *operator new(size_t bytes) {
  ++newCalls;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace braid::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kM = 384, kK = 256, kN = 192; ///< kM is the total number of rows
constexpr int64_t kSmall = 4;                   ///< divisor of the sizes when there are many runs

Status wrong(std::string message) { return Status(StatusCode::WrongResult, std::move(message)); }

/// A program that is prepared on this rank.
struct Program {
  std::unique_ptr<Source> source;
  Compiled compiled;
  std::vector<Plan> plans;
  std::unique_ptr<Reference> reference;
  std::unique_ptr<Prepared> prepared;
};

/// One rank and the programs that it has prepared.
class RankTest {
public:
  RankTest(Cluster &cluster, int runs) : cluster_(cluster), runs_(runs) {}

  int runs() const { return runs_; }
  int64_t rank() const { return cluster_.firstHosted(); }
  int64_t ranks() const { return cluster_.ranks(); }
  Device &device() { return cluster_.device(rank()); }
  ControlPlane &control() { return cluster_.control(rank()); }
  const Plan &plan(const Program &program) const {
    return program.plans[static_cast<size_t>(rank())];
  }

  Result<std::unique_ptr<Program>> prepareProgram(const CompileOptions &chosen, uint64_t seed,
                                                  TransferMode transferMode = {},
                                                  int64_t shrink = 1) {
    const int64_t m = kM / shrink / ranks(), k = kK / shrink, n = kN / shrink;
    auto program = std::make_unique<Program>();
    program->source =
        parseSource("gpu.braid", fmt::format("fusion @f(D = {}) {{\n  mesh [0 .. D)\n"
                                             "  %A = input bf16[DIDx{{D}}, {}, {}]\n"
                                             "  %B = input bf16[{}, {}]\n"
                                             "  %C = matmul %A, %B : bf16[Stream{{D}}, {}, {}]\n"
                                             "  output %C\n}}\n",
                                             ranks(), m, k, k, n, m, n));
    CompileOptions options = chosen;
    options.ranks = ranks();
    program->compiled = BRAID_TRY(compile(*program->source, options));
    program->plans = BRAID_TRY(makePlans(program->compiled));
    program->reference = std::make_unique<Reference>(*program->compiled.fusion, seed);
    cluster_.setPlans(program->plans);
    program->prepared = BRAID_TRY(prepare(plan(*program), device(), control(), transferMode));
    return program;
  }

  Result<Arguments> makeArguments(const Program &program) {
    return Arguments::allocate(plan(program), device());
  }

  /// Fills the inputs, runs or replays once, and compares the result.
  Status runOnce(Program &program, Arguments &arguments, uint32_t iteration, bool replays) {
    program.reference->fillInput(0, rank(), iteration, arguments.input(0));
    program.reference->fillInput(1, rank(), iteration, arguments.input(1));
    const PlanBuffer &output = plan(program).buffers[plan(program).outputs[0]];
    std::memset(arguments.output(0), 0xff, static_cast<size_t>(output.bytes)); // fills with NaNs
    arguments.upload();
    RunArguments addresses = arguments.addresses();
    if (replays)
      program.prepared->replay();
    else
      program.prepared->run(addresses.inputs, addresses.outputs);
    arguments.download();
    BRAID_TRY(device().synchronize());
    return program.reference->compare(0, rank(), iteration, arguments.output(0));
  }

private:
  Cluster &cluster_;
  const int runs_;
};

/// Compile options and a transfer mode.
struct Way {
  CompileOptions options;
  TransferMode transferMode;
  std::string str() const {
    return fmt::format("{}, copies {}, signals {}", options.schedule.str(),
                       name(transferMode.copies).str(), name(transferMode.signals).str());
  }
};

std::vector<Way> allWays() {
  std::vector<Way> launchModes;
  for (const char *schedule : {"pairwise", "pairwise;placement=shared", "ring", "sequential",
                               "batched", "bulk", "coalesced"})
    for (const char *protocol : {";protocol=get", ";protocol=put"})
      for (TransferMode transferMode :
           {TransferMode{}, TransferMode{CopyBy::Kernel, {}},
            TransferMode{CopyBy::Engine, SignalBy::Kernel},
            TransferMode{CopyBy::Engine, SignalBy::Memory}}) // 56 modes in total
        launchModes.push_back(
            {{.schedule = *Configurations::parse(std::string(schedule) + protocol)}, transferMode});
  return launchModes;
}

/// Runs eagerly with two alternating sets of addresses, and replays.
Status runOneWay(RankTest &test, const Way &way, int runs) {
  const auto prepared = BRAID_TRY(test.prepareProgram(way.options, 4, way.transferMode, kSmall));
  Program &program = *prepared;
  std::vector<Arguments> slots;
  for (int i = 0; i < 3; ++i) {
    Arguments arguments = BRAID_TRY(test.makeArguments(program));
    slots.push_back(std::move(arguments));
  }
  RunArguments captured = slots[2].addresses();
  BRAID_TRY(program.prepared->capture(captured.inputs, captured.outputs));
  for (int run = 0; run < 2 * runs; ++run) {
    const bool replays = run / runs == 1;
    Arguments &arguments = slots[static_cast<size_t>(replays ? 2 : run % 2)];
    BRAID_TRY(test.runOnce(program, arguments, static_cast<uint32_t>(run), replays));
  }
  return Status::ok();
}

/// Runs every schedule with both protocols in all transfer modes, both eagerly and replayed.
Status runsEveryWay(RankTest &test) {
  const std::vector<Way> launchModes = allWays();
  for (const Way &way : launchModes)
    BRAID_TRY(runOneWay(test, way, test.runs()).annotated(way.str()));
  if (test.rank() == 0)
    std::printf("  %zu modes, each %d times eagerly and as often replayed\n", launchModes.size(),
                test.runs());
  return Status::ok();
}

/// Eager runs and replays use the same flags and may alternate in any order.
Status mixesRunsAndReplays(RankTest &test) {
  for (int i = 0; i < 4; ++i) {
    CompileOptions options;
    options.schedule.all.set(Knob::Protocol, i % 2 == 0 ? Protocol::Get : Protocol::Put);
    const TransferMode transferMode = i < 2 ? TransferMode{} : TransferMode{CopyBy::Kernel, {}};
    auto program = BRAID_TRY(test.prepareProgram(options, 3, transferMode));
    Arguments arguments = BRAID_TRY(test.makeArguments(*program));
    RunArguments addresses = arguments.addresses();
    BRAID_TRY(program->prepared->capture(addresses.inputs, addresses.outputs));
    std::mt19937 dice(static_cast<uint32_t>(test.rank())); // each rank draws a different order
    for (uint32_t run = 0; run < 500; ++run)
      BRAID_TRY(test.runOnce(*program, arguments, run, dice() % 2 == 0));
  }
  return Status::ok();
}

Status runsWithoutAllocating(RankTest &test, const CompileOptions &options,
                             TransferMode transferMode) {
  auto program = BRAID_TRY(test.prepareProgram(options, 9, transferMode));
  Arguments arguments = BRAID_TRY(test.makeArguments(*program));
  RunArguments addresses = arguments.addresses();
  Prepared &prepared = *program->prepared;
  BRAID_TRY(prepared.capture(addresses.inputs, addresses.outputs));
  size_t freeBefore = 0, freeAfter = 0, total = 0, calls = 0;
  std::vector<double> eager, replayed;
  constexpr int kWarmUp = 20, kRuns = 220;
  for (int run = 0; run < kRuns; ++run) {
    for (std::vector<double> *times : {&eager, &replayed}) {
      if (run == kWarmUp)
        cudaMemGetInfo(&freeBefore, &total);
      size_t before = newCalls;
      Clock::time_point start = Clock::now();
      if (times == &eager)
        prepared.run(addresses.inputs, addresses.outputs);
      else
        prepared.replay();
      double time = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
      calls += newCalls - before;
      BRAID_TRY(test.device().synchronize());
      if (run >= kWarmUp)
        times->push_back(time);
    }
  }
  cudaMemGetInfo(&freeAfter, &total);
  if (calls != 0 || freeBefore != freeAfter)
    return wrong(fmt::format("{} allocations on the host, {} bytes on the GPU", calls,
                             freeBefore - freeAfter));
  for (std::vector<double> *times : {&eager, &replayed})
    std::nth_element(times->begin(), times->begin() + 100, times->end());
  double each = eager[100] / static_cast<double>(test.plan(*program).commands.size());
  if (test.rank() == 0)
    std::printf("  %zu commands: %.2f us each to issue; a replay: %.2f us\n",
                test.plan(*program).commands.size(), each, replayed[100]);
  // Issuing takes 2 to 3 us. A call that waits for the GPU or for a peer takes much longer.
  constexpr double kMost = 10;
  if (each > kMost)
    return wrong(fmt::format("{:.2f} us a command, expected at most {}", each, kMost));
  return Status::ok();
}

/// Issuing a run must not allocate memory and must take little time.
Status runsWithoutAllocating(RankTest &test) {
  BRAID_TRY(runsWithoutAllocating(test, {}, {}));
  CompileOptions options;
  options.schedule = *Configurations::parse("batched;protocol=put");
  return runsWithoutAllocating(test, options, {CopyBy::Kernel, SignalBy::Default});
}

// -- Copies by kernels, with all sizes and alignments. --

/// Source and destination on this rank's GPU. Each pair of alignments has `room` bytes, of which a
/// copy may change only its destination.
class CopyPlaces {
public:
  static constexpr int64_t kAlignments = 16, kPairs = kAlignments * kAlignments;

  explicit CopyPlaces(int64_t room)
      : room_(room), source_(static_cast<size_t>(kPairs * room)), target_(source_.size()) {
    std::mt19937 dice(1);
    for (char &byte : source_)
      byte = static_cast<char>(dice());
    cudaMalloc(&from_, source_.size());
    cudaMalloc(&to_, target_.size());
    cudaMalloc(&counters_, cuda::CopyAndSignal::kCounters * sizeof(uint32_t));
    cudaMalloc(&step_, sizeof(uint32_t));
    cudaMemset(counters_, 0, cuda::CopyAndSignal::kCounters * sizeof(uint32_t));
    cudaMemcpy(from_, source_.data(), source_.size(), cudaMemcpyDefault);
  }
  ~CopyPlaces() {
    for (void *memory : {static_cast<void *>(from_), static_cast<void *>(to_),
                         static_cast<void *>(counters_), static_cast<void *>(step_)})
      cudaFree(memory);
  }
  CopyPlaces(const CopyPlaces &) = delete;

  Status checkAll(int64_t bytes) {
    static_assert(cuda::CopyAndSignal::kMost == kAlignments);
    constexpr char kPoison = 0x5a;
    cudaMemset(to_, kPoison, target_.size());
    for (int64_t first = 0; first < kPairs; first += kAlignments)
      launch(first, bytes);
    cudaMemcpy(target_.data(), to_, target_.size(), cudaMemcpyDefault);
    if (cudaError_t code = cudaGetLastError(); code != cudaSuccess)
      return wrong(fmt::format("{} bytes: {}", bytes, cudaGetErrorString(code)));
    for (int64_t pair = 0; pair < kPairs; ++pair)
      for (int64_t i = 0; i < room_; ++i) {
        const int64_t at = i - targetOf(pair);
        const char expected =
            at >= 0 && at < bytes ? source_[index(pair, sourceOf(pair) + at)] : kPoison;
        if (const char found = target_[index(pair, i)]; found != expected)
          return wrong(fmt::format("{} bytes from {} to {} of 16, byte {}: expected {}, got {}",
                                   bytes, sourceOf(pair), targetOf(pair) % kAlignments, at,
                                   int(expected), int(found)));
      }
    return Status::ok();
  }

private:
  static int64_t sourceOf(int64_t pair) { return pair % kAlignments; }
  /// Leaves 16 bytes before the destination, which must not change.
  static int64_t targetOf(int64_t pair) { return kAlignments + pair / kAlignments; }
  size_t index(int64_t pair, int64_t at) const { return static_cast<size_t>(pair * room_ + at); }

  /// Copies all pairs with one destination alignment. Most pairs are not aligned for the bulk copy
  /// unit, and there are so few blocks that each block copies several tiles.
  void launch(int64_t first, int64_t bytes) {
    cuda::CopyAndSignal batch;
    batch.step = step_;
    batch.counters = counters_;
    for (int64_t pair = first; bytes != 0 && pair < first + kAlignments; ++pair)
      batch.copies[batch.copyCount++] = {to_ + index(pair, targetOf(pair)),
                                         from_ + index(pair, sourceOf(pair)), bytes};
    cuda::launchCopyAndSignal(nullptr, batch, {.ofOne = 1, .ofSeveral = 5}, true);
  }

  const int64_t room_;
  std::vector<char> source_, target_;
  char *from_ = nullptr, *to_ = nullptr;
  uint32_t *counters_ = nullptr, *step_ = nullptr;
};

/// Checks that every byte is copied and that no other byte is written.
Status copiesAnyBytes(RankTest &test) {
  std::vector<int64_t> sizes;
  for (int64_t bytes = 0; bytes <= 100; ++bytes)
    sizes.push_back(bytes);
  for (int64_t border : {cuda::kTileBytes, 2 * cuda::kTileBytes})
    for (int64_t beside : {-17, -16, -15, -1, 0, 1, 15, 16, 17})
      sizes.push_back(border + beside);
  for (int64_t bytes : sizes) {
    CopyPlaces places((bytes + 63) / 16 * 16);
    BRAID_TRY(places.checkAll(bytes));
  }
  if (test.rank() == 0)
    std::printf("  %zu sizes, %d pairs of alignments each\n", sizes.size(),
                static_cast<int>(CopyPlaces::kPairs));
  return Status::ok();
}

// -- Sums by the kernel that also copies the parts. --

/// Computes a sum on this rank's GPU with a separate kernel and, if possible, with a kernel that
/// also waits and copies parts. If `shift` is not 0, no address is aligned.
class SumPlaces {
public:
  static constexpr int64_t kMostBytes = 4 << 20; ///< limit for the parts, and for the bias
  static constexpr int64_t kBehind = 256;        ///< bytes after a result that must not change

  SumPlaces() {
    std::mt19937 dice(1);
    std::vector<uint16_t> halves(kMostBytes / 2); // small finite numbers in every type
    for (uint16_t &half : halves)
      half = static_cast<uint16_t>(0x3800 + dice() % 0x700 + (dice() % 2 << 15));
    for (char **memory : {&parts_, &copied_, &bias_, &alone_, &along_, &given_, &taken_})
      cudaMalloc(memory, kMostBytes);
    for (char *memory : {parts_, bias_})
      cudaMemcpy(memory, halves.data(), kMostBytes, cudaMemcpyDefault);
    cudaMalloc(&words_, kWords * sizeof(uint32_t));
    cudaMemset(words_, 0, kWords * sizeof(uint32_t));
  }
  ~SumPlaces() {
    for (char *memory : {parts_, copied_, bias_, alone_, along_, given_, taken_})
      cudaFree(memory);
    cudaFree(words_);
  }
  SumPlaces(const SumPlaces &) = delete;

  /// Sets the addresses in `sum`, and checks the results of both kernels.
  Status check(cuda::Sum sum, int64_t shift, bool hasBias, cuda::CopyAndSignalBlocks most) {
    bytes_ = static_cast<size_t>(shift + sum.elements * cuda::sizeOf(sum.result) + kBehind);
    sum.parts = parts_ + shift;
    sum.bias = hasBias ? bias_ + shift : nullptr;
    for (char *result : {alone_, along_})
      cudaMemset(result, 0x5a, bytes_);
    sum.dst = alone_ + shift;
    cuda::launchSum(nullptr, sum);
    sum.dst = along_ + shift;
    for (bool keepsParts : {true, false}) {
      sum.keepsParts = keepsParts;
      if (!launchAlong(sum, most, /*hasSecondShot=*/false))
        return Status::ok();
      BRAID_TRY(compare("along copies"));
      if (areCopied(sum, copied_ + shift) != keepsParts)
        return wrong(keepsParts ? "parts were not copied" : "parts were copied for nobody");
    }
    ++alongCount_;
    for (char *place : {given_, taken_})
      cudaMemset(place, 0x5a, bytes_);
    launchAlong(sum, most, /*hasSecondShot=*/true);
    BRAID_TRY(compare("before a second shot"));
    return isGiven(sum) ? Status::ok() : wrong("a place of the second shot has other bits");
  }
  int64_t alongCount() const { return alongCount_; }

private:
  static constexpr size_t kStep = 0, kFlag = 1, kReleased = 2, kMayGive = 3, kIsGiven = 4,
                          kCounters = 5, kWords = kCounters + cuda::CopyAndSignal::kCounters;

  Status compare(const char *how) {
    std::vector<char> wanted(bytes_), got(bytes_);
    std::vector<uint32_t> words(kWords);
    cudaMemcpy(wanted.data(), alone_, bytes_, cudaMemcpyDefault);
    cudaMemcpy(got.data(), along_, bytes_, cudaMemcpyDefault);
    cudaMemcpy(words.data(), words_, kWords * sizeof(uint32_t), cudaMemcpyDefault);
    if (cudaError_t code = cudaGetLastError(); code != cudaSuccess)
      return wrong(cudaGetErrorString(code));
    if (wanted != got)
      return wrong(fmt::format("the sum {} has other bits than the one by its own kernel", how));
    words[kStep] = 0;
    if (words != std::vector<uint32_t>(kWords, 0))
      return wrong("flags and counters are not 0 behind a launch");
    return Status::ok();
  }

  static bool areCopied(const cuda::Sum &sum, const char *copied) {
    const size_t bytes = sum.count * sum.stride;
    std::vector<char> wanted(bytes), got(bytes);
    cudaMemcpy(wanted.data(), sum.parts, bytes, cudaMemcpyDefault);
    cudaMemcpy(got.data(), copied, bytes, cudaMemcpyDefault);
    return wanted == got;
  }

  /// Returns true if the result is at the second shot's destination and was copied from there.
  bool isGiven(const cuda::Sum &sum) const {
    const auto bytes = static_cast<size_t>(sum.elements * cuda::sizeOf(sum.result));
    std::vector<char> wanted(bytes), given(bytes), taken(bytes);
    cudaMemcpy(wanted.data(), sum.dst, bytes, cudaMemcpyDefault);
    cudaMemcpy(given.data(), given_, bytes, cudaMemcpyDefault);
    cudaMemcpy(taken.data(), taken_, bytes, cudaMemcpyDefault);
    return given == wanted && taken == wanted;
  }

  /// Returns a launch that sends the signal that it waits for.
  cuda::CopyAndSignal waiting(const cuda::Sum &sum) {
    cuda::CopyAndSignal batch;
    batch.step = words_ + kStep;
    batch.counters = words_ + kCounters;
    batch.readySignals[batch.readySignalCount++] = {words_ + kFlag, 1};
    batch.awaits[batch.awaitCount++] = {words_ + kFlag, 2};
    batch.sum = sum;
    return batch;
  }

  /// Computes the sum in a kernel that also copies every second part; the other parts are already
  /// in place. Returns false if the kernel does not support the sum.
  bool launchAlong(cuda::Sum sum, cuda::CopyAndSignalBlocks most, bool hasSecondShot) {
    const auto *from = static_cast<const char *>(sum.parts);
    char *to = copied_ + (from - parts_);
    sum.parts = to;
    cuda::CopyAndSignal batch = waiting(sum);
    batch.released = words_ + kReleased;
    const int64_t bytes = sum.elements * cuda::sizeOf(sum.partial);
    cudaMemcpy(to, from, sum.count * sum.stride, cudaMemcpyDefault);
    for (int64_t part = sum.count > 1; part < sum.count; part += 2) {
      const int64_t at = part * sum.stride;
      cudaMemset(to + at, 0x5a, bytes);
      batch.copies[batch.copyCount++] = {to + at, from + at, bytes};
    }
    if (!cuda::canAddAlong(batch, batch.sum))
      return false;
    if (hasSecondShot)
      addSecondShot(batch);
    cudaMemset(along_, 0x5a, bytes_);
    cuda::launchCopyAndSignal(nullptr, batch, most, true);
    return true;
  }

  /// Adds a second shot in which the kernel acts as its own peer.
  void addSecondShot(cuda::CopyAndSignal &batch) {
    const int64_t bytes = batch.sum.elements * cuda::sizeOf(batch.sum.result);
    batch.readySignals[batch.readySignalCount++] = {words_ + kMayGive, 3};
    batch.second.awaits[batch.second.awaitCount++] = {words_ + kMayGive, 4};
    batch.second.places[batch.second.placeCount++] = given_;
    batch.second.signals[batch.second.signalCount++] = {words_ + kIsGiven, 5};
    batch.arrivals[batch.arrivalCount++] = {words_ + kIsGiven, 6};
    batch.second.copies[batch.second.copyCount++] = {taken_, given_, bytes};
  }

  size_t bytes_ = 0; ///< size of the current result and the guard bytes around it
  int64_t alongCount_ = 0;
  char *parts_ = nullptr, *copied_ = nullptr, *bias_ = nullptr, *alone_ = nullptr,
       *along_ = nullptr, *given_ = nullptr, *taken_ = nullptr;
  uint32_t *words_ = nullptr;
};

/// Both kernels produce the same bits for any type, address and number of workers.
Status addsAlongCopies(RankTest &test) {
  using cuda::Element;
  SumPlaces places;
  int64_t sums = 0;
  for (Element element : {Element::BF16, Element::F16, Element::F32, Element::F64})
    for (Element partial : {element, element == Element::F64 ? element : Element::F32})
      for (Element result : {element, partial})
        for (int64_t count : {1, 2, 3, 8, 9})
          for (int64_t elements : {1, 7, 64, 1003, 4096, 40000})
            for (int64_t shift : {0, 8}) // in bytes
              for (bool hasBias : {false, true})
                for (cuda::CopyAndSignalBlocks most :
                     {cuda::CopyAndSignalBlocks{1, 1}, {1, 5}, {32, 64}}) {
                  const int64_t biasElements = elements % 8 == 0 ? elements / 8 : elements;
                  const cuda::Sum sum{element, partial, elements,     count,   elements * 8,
                                      nullptr, nullptr, biasElements, nullptr, result};
                  BRAID_TRY(
                      places.check(sum, shift, hasBias, most)
                          .annotated(fmt::format("types {} {} {}, {} elements of {} parts, shift "
                                                 "{}, bias {}, {} workers",
                                                 int(element), int(partial), int(result), elements,
                                                 count, shift, hasBias, most.ofSeveral)));
                  ++sums;
                }
  if (test.rank() == 0)
    std::printf("  %d sums, %d of them along copies and before a second shot, too\n",
                static_cast<int>(sums), static_cast<int>(places.alongCount()));
  return places.alongCount() == 0 ? wrong("no sum was added along copies") : Status::ok();
}

struct Case {
  const char *name;
  Status (*run)(RankTest &);
};
constexpr Case kCases[] = {
    // This case must be first because it measures in a fresh process.
    {"runs without allocating", runsWithoutAllocating},
    {"copies any bytes", copiesAnyBytes},
    {"adds along copies", addsAlongCopies},
    {"runs every way", runsEveryWay},
    {"mixes runs and replays", mixesRunsAndReplays},
};

/// Preparing during a capture of the caller's stream is rejected with advice on when to prepare.
Status refusesToPrepareInCapture(const Place &place, JobRank &job) {
  const int gpu = static_cast<int>(place.localRank) % countGpus();
  cudaSetDevice(gpu);
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  auto cluster = BRAID_TRY(joinCuda({.ranks = place.ranks, .device = gpu}, job.takeClient()));
  RankTest test(*cluster, 0);
  BRAID_TRY(cluster->device(place.rank).setCallerStream(stream, {}));
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  auto program = test.prepareProgram({}, 1);
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  return program ? wrong("prepared while the stream was being captured") : program.status();
}

/// Runs all cases until one fails.
Status runCases(RankTest &test) {
  for (const Case &each : kCases) {
    const auto begin = std::chrono::steady_clock::now();
    BRAID_TRY(each.run(test).annotated(each.name));
    if (test.rank() == 0)
      std::printf("  %s: %.1f s\n", each.name, secondsSince(begin));
    std::fflush(stdout); // in case a rank is killed
  }
  return test.control().commit();
}

int casesMain(const Place &place, int runs) {
  Result<std::unique_ptr<JobRank>> job = JobRank::join(place);
  if (!job)
    return static_cast<int>(job.status().code());
  Result<std::unique_ptr<Cluster>> cluster = joinCuda({.ranks = place.ranks}, (*job)->takeClient());
  if (!cluster)
    return endOfRank(**job, cluster.status());
  RankTest test(**cluster, runs);
  const Status status = runCases(test);
  if (!status.isOk())
    test.control().abort(status);
  return endOfRank(**job, status);
}

int refusalMain(const Place &place, int) {
  Result<std::unique_ptr<JobRank>> job = JobRank::join(place);
  return job ? endOfRank(**job, refusesToPrepareInCapture(place, **job))
             : static_cast<int>(job.status().code());
}

} // namespace
} // namespace braid::test

int main(int argc, char **argv) {
  using namespace braid::test;
  return gpuJobMain(argc, argv,
                    {{"all cases", casesMain},
                     {"a preparation in a capture", refusalMain, "call prepare() before"}});
}
