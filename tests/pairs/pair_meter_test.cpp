//===- tests/pairs/pair_meter_test.cpp - every path, on ranks that are threads ----------------===//

#include "api/pairs/pair_meter.h"
#include "api/pairs/time_for_sizes.h"
#include "api/ranks/mesh.h"
#include "backends/cpu/cpu_backend.h"
#include "runtime/job/bootstrap/socket.h"
#include "tests/support/message_cluster.h"

#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <map>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace braid::test {
namespace {

using Lines = std::multimap<Measurement::Kind, Measurement>;

/// What all ranks say of a job.
Lines measureOn(const Backend &backend, const MeasuringJob &job) {
  FileDescriptor results(memfd_create("results", MFD_CLOEXEC));
  fcntl(results.get(), F_SETFL, O_APPEND);
  const auto ranks = static_cast<int64_t>(job.devices.size());
  std::vector<TimedPlans> plans(job.devices.size());
  auto mesh = LocalMesh::create(backend, {.ranks = ranks, .timeout = std::chrono::seconds(20)});
  EXPECT_TRUE(mesh.isOk()) << mesh.status().message();
  const Status status = (*mesh)->onEveryRank([&](int64_t rank) {
    return PairMeter(job, backend, (*mesh)->cluster(), rank, plans[static_cast<size_t>(rank)],
                     nullptr, results.get())
        .measure();
  });
  EXPECT_TRUE(status.isOk()) << status.message();
  std::string text(static_cast<size_t>(lseek(results.get(), 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(results.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  Lines lines;
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef part : parts) {
    const Result<Measurement> line = Measurement::decode(part);
    EXPECT_TRUE(line.isOk()) << part.str();
    if (line)
      lines.emplace(line->kind, *line);
  }
  return lines;
}

MeasuringJob jobOf(std::vector<int64_t> devices, Path path) {
  MeasuringJob job;
  job.backend = "messages";
  job.devices = std::move(devices);
  job.seconds = 60;
  const int64_t a = job.devices[0], b = job.devices[1];
  job.pairs = {{a, b, path, {4, 4096, 1 << 20}}, {b, a, path, {4096, 1 << 20}}};
  job.together = {{path, 4096, {{a, b}}}};
  return job;
}

TEST(PairMeter, MeasuresEveryPathThatThereIs) {
  using Kind = Measurement::Kind;
  const Backend backend = messageBackend();
  for (Path path : {Path::PutEngine, Path::GetEngine, Path::Messages, Path::Host}) {
    SCOPED_TRACE(name(path).str());
    const Lines lines = measureOn(backend, jobOf({5, 3, 7}, path));
    EXPECT_EQ(lines.count(Kind::Bandwidth), 5u);
    EXPECT_EQ(lines.count(Kind::Latency), 4u); // of the sizes that both directions have
    EXPECT_EQ(lines.count(Kind::Wrong), 0u);
    EXPECT_EQ(lines.count(Kind::Unavailable), 0u);
    // A group of messages is one whole, of which no pair has times of its own.
    EXPECT_EQ(lines.count(Kind::Together), path == Path::Messages ? 0u : 5u);
    for (const auto &[kind, line] : lines) {
      EXPECT_EQ(line.path, path);
      const bool isFigure =
          kind == Kind::Bandwidth || kind == Kind::Latency || kind == Kind::Together;
      EXPECT_EQ(line.value > 0, isFigure) << line.encode();
    }
  }
}

TEST(PairMeter, MeasuresAllAtOnceButThoseThatAreLeftOut) {
  BackendRegistry registry;
  registerCpuBackend(registry);
  for (Path path : {Path::PutEngine, Path::GetEngine, Path::Host}) {
    MeasuringJob job = jobOf({5, 3, 7}, path);
    job.pairs.clear();
    const Lines lines = measureOn(*registry.find("cpu"), job);
    EXPECT_EQ(lines.count(Measurement::Kind::Together), 5u);
    EXPECT_EQ(lines.count(Measurement::Kind::Wrong), 0u);
    for (const auto &[kind, line] : lines)
      EXPECT_FALSE(line.source == 5 && line.destination == 3) << line.encode();
  }
}

TEST(PairMeter, SaysWhatThereIsNot) {
  const Lines lines = measureOn(messageBackend(), jobOf({0, 1}, Path::GetKernel));
  EXPECT_EQ(lines.count(Measurement::Kind::Unavailable), 2u);
  EXPECT_EQ(lines.size(), 2u);
}

TEST(PairMeter, BeginsNoSizeThatWouldTakeTooLong) {
  MeasuringJob job = jobOf({0, 1}, Path::PutEngine);
  job.seconds = 0; // the first one is begun, and then there is no time for more
  const Lines lines = measureOn(messageBackend(), job);
  EXPECT_EQ(lines.count(Measurement::Kind::Bandwidth), 1u);
}

constexpr int64_t kMiB = 1 << 20;

/// Where one of a few bytes takes `ofFew` seconds, and one of 64 MiB twice as long.
std::vector<int64_t> inTime(const std::vector<int64_t> &sizes, double seconds, double ofFew) {
  TimeForSizes time(sizes, seconds);
  std::vector<int64_t> measured;
  double gone = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (time.has(i, gone)) {
      const double took = ofFew * (1 + static_cast<double>(sizes[i]) / (64 * kMiB));
      gone += took;
      time.measured(i, took);
      measured.push_back(sizes[i]);
    }
  return measured;
}

TEST(TimeForSizes, IsMostlyForLargeOnes) {
  std::vector<int64_t> sizes;
  for (int64_t bytes = 4; bytes <= 1024 * kMiB; bytes *= 4)
    sizes.push_back(bytes);
  EXPECT_EQ(inTime(sizes, 1, 0.001), sizes);
  EXPECT_EQ(inTime(sizes, 1, 0.07), // as GPUs do
            (std::vector<int64_t>{4, 16, 256, 4096, 65536, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB}));
  EXPECT_EQ(inTime(sizes, 1, 0.15), (std::vector<int64_t>{4, 16, 4096, kMiB, 4 * kMiB}));
  EXPECT_EQ(inTime(sizes, 0.3, 0.15), (std::vector<int64_t>{4}));
  EXPECT_EQ(inTime(sizes, 0, 0.15), (std::vector<int64_t>{4}));
}

TEST(TimeForSizes, KnowsHowFarApartSizesAre) {
  EXPECT_EQ(inTime({256 * kMiB, 1024 * kMiB}, 2, 0.1), (std::vector<int64_t>{256 * kMiB}));
  EXPECT_EQ(inTime({256 * kMiB, 1024 * kMiB}, 3, 0.1).size(), 2u);
  EXPECT_EQ(inTime({4, 64 * kMiB, 1024 * kMiB}, 1.5, 0.1), (std::vector<int64_t>{4, 64 * kMiB}));
}

} // namespace
} // namespace braid::test
