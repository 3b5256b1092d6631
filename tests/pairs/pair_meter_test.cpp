//===- tests/pairs/pair_meter_test.cpp - every path, with ranks that are threads --------------===//

#include "api/pairs/measure_pairs.h"
#include "runtime/job/bootstrap/socket.h"
#include "tests/support/local_mesh.h"
#include "tests/support/message_cluster.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace braid::test {
namespace {

using Kind = Record::Kind;

/// Measures all steps of a path, and returns the records of both ranks.
std::vector<Record> recordsOf(Path path, std::vector<int64_t> sizes, Status &status) {
  const FileDescriptor results(memfd_create("results", MFD_CLOEXEC));
  fcntl(results.get(), F_SETFL, O_APPEND);
  MeterOptions options;
  options.steps = {Step{path, 0}.number(), Step{path, 1}.number()};
  options.sizes = std::move(sizes);
  options.results = results.get();
  const Backend backend = messageBackend();
  std::array<TimedPlans, 2> plans;
  auto mesh = LocalMesh::create(backend, {.ranks = 2, .timeout = std::chrono::seconds(20)});
  EXPECT_TRUE(mesh.isOk()) << mesh.status().message();
  status = (*mesh)->onEveryRank([&](int64_t rank) {
    PlanTimer timer((*mesh)->cluster(), rank, plans[static_cast<size_t>(rank)]);
    return measureSteps(options, backend, timer);
  });
  const auto bytes = static_cast<size_t>(lseek(results.get(), 0, SEEK_END));
  EXPECT_EQ(bytes % sizeof(Record), 0u);
  std::vector<Record> records(bytes / sizeof(Record));
  EXPECT_EQ(pread(results.get(), records.data(), bytes, 0), static_cast<ssize_t>(bytes));
  return records;
}

int64_t count(const std::vector<Record> &records, Kind kind) {
  return llvm::count_if(records, [&](const Record &record) { return record.kind == kind; });
}

TEST(PairMeter, MeasuresEveryPathThatThereIs) {
  for (Path path : {Path::PutEngine, Path::GetEngine, Path::Messages}) {
    SCOPED_TRACE(name(path).str());
    Status status;
    const std::vector<Record> records = recordsOf(path, {4, 4096, 2 << 20}, status);
    EXPECT_TRUE(status.isOk()) << status.message();
    EXPECT_EQ(count(records, Kind::Device), 2);
    EXPECT_EQ(count(records, Kind::Begin), 12);
    EXPECT_EQ(count(records, Kind::Bandwidth), 6);
    EXPECT_EQ(count(records, Kind::Latency), 2); // not for the largest size
    EXPECT_EQ(count(records, Kind::Wrong), 0);
    for (const Record &record : records)
      EXPECT_EQ(record.value > 0, record.kind == Kind::Bandwidth || record.kind == Kind::Latency);
  }
}

TEST(PairMeter, SaysWhatThereIsNot) {
  Status status;
  recordsOf(Path::GetKernel, {4}, status);
  EXPECT_EQ(status.code(), StatusCode::Unsupported) << status.message();
}

} // namespace
} // namespace braid::test
