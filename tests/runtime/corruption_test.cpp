//===- tests/runtime/corruption_test.cpp - no damaged transfer passes -------------------------===//
//
// Damages every transfer of every rank once in every way, in real runs, and demands that the
// reference objects on some rank; and that the runs before and after, not damaged, pass.
//
//===----------------------------------------------------------------------------------------===//
#include "tests/support/faulty_device.h"

#include "backends/cpu/cpu_backend.h"
#include "ir/module.h"
#include "lowering/lower.h"
#include "runtime/execute/executor.h"
#include "runtime/plan/specialize.h"
#include "runtime/reference/reference.h"
#include "tests/support/configured.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

using namespace braid;
using namespace braid::test;

namespace {

struct Case {
  std::string text;
  std::string options; ///< as --schedule takes them
};

/// All ranks of a fusion, prepared on the cpu backend behind faulty devices.
class Mesh {
public:
  explicit Mesh(const Case &tested) : diags_("test.braid", tested.text) {
    module_ = parse(diags_);
    prepared_ = compile(tested.options) && connect() && prepareAll();
    if (!prepared_)
      ADD_FAILURE() << tested.text << diags_.str();
  }

  bool isPrepared() const { return prepared_; }
  int64_t ranks() const { return static_cast<int64_t>(plans_.size()); }
  FaultyDevice &device(int64_t rank) { return *devices_[rank]; }
  const Reference &reference() const { return *reference_; }
  /// The epoch of the next run.
  uint32_t nextRun() const { return runs_ + 1; }

  /// Runs once with fresh inputs. Ok, or the first objection.
  Status run() {
    ++runs_;
    for (int64_t rank = 0; rank < ranks(); ++rank)
      issue(rank);
    Status result = Status::ok();
    for (int64_t rank = 0; rank < ranks(); ++rank)
      if (const Status status = finish(rank); result.isOk())
        result = status;
    return result;
  }

private:
  bool compile(const std::string &options) {
    if (module_.fusions.empty() || !verify(module_, diags_))
      return false;
    const Fusion &fusion = *module_.fusions.front();
    reference_ = std::make_unique<Reference>(fusion, 11);
    Result<std::unique_ptr<Program>> program = lower(module_, fusion, configured(options), diags_);
    if (!program)
      return false;
    for (int64_t rank = 0; rank < (*program)->ranks(); ++rank) {
      Result<Plan> plan = specialize(**program, rank, diags_);
      if (!plan)
        return false;
      plans_.push_back(std::make_unique<Plan>(std::move(*plan)));
    }
    return true;
  }

  bool connect() {
    BackendRegistry registry;
    registerCpuBackend(registry);
    ClusterOptions options;
    options.ranks = ranks();
    Result<std::unique_ptr<Cluster>> cluster = registry.find("cpu")->create(options);
    if (!cluster)
      return false;
    cluster_ = std::move(*cluster);
    for (int64_t rank = 0; rank < ranks(); ++rank) {
      devices_.push_back(std::make_unique<FaultyDevice>(cluster_->device(rank), *plans_[rank]));
      buffers_.push_back(makeBuffers());
    }
    return true;
  }

  /// Preparing blocks until all ranks came, so each has a thread.
  bool prepareAll() {
    bound_.resize(plans_.size());
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < ranks(); ++rank)
      threads.emplace_back([this, rank] {
        auto result = prepare(*plans_[rank], *devices_[rank], cluster_->control(rank));
        if (result)
          bound_[rank] = std::move(*result);
      });
    for (std::thread &thread : threads)
      thread.join();
    return std::all_of(bound_.begin(), bound_.end(), [](const auto &bound) { return !!bound; });
  }

  struct Buffers {
    std::vector<std::vector<char>> inputs, outputs;
  };

  Buffers makeBuffers() const {
    Buffers buffers;
    for (size_t i = 0; i < reference_->inputCount(); ++i)
      buffers.inputs.emplace_back(reference_->inputBytes(i));
    for (size_t i = 0; i < reference_->outputCount(); ++i)
      buffers.outputs.emplace_back(reference_->outputBytes(i));
    return buffers;
  }

  void issue(int64_t rank) {
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    Buffers &buffers = buffers_[rank];
    for (size_t i = 0; i < buffers.inputs.size(); ++i) {
      reference_->fillInput(i, rank, runs_, buffers.inputs[i].data());
      inputs.push_back(buffers.inputs[i].data());
    }
    for (size_t i = 0; i < buffers.outputs.size(); ++i) {
      reference_->poisonOutput(i, buffers.outputs[i].data());
      outputs.push_back(buffers.outputs[i].data());
    }
    bound_[rank]->run(inputs, outputs);
  }

  Status finish(int64_t rank) {
    if (const Status status = devices_[rank]->synchronize(); !status.isOk())
      return status;
    for (size_t i = 0; i < reference_->outputCount(); ++i)
      if (const Status status =
              reference_->compare(i, rank, runs_, buffers_[rank].outputs[i].data());
          !status.isOk())
        return status;
    return Status::ok();
  }

  Diagnostics diags_;
  Module module_;
  std::unique_ptr<Reference> reference_;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::vector<Buffers> buffers_;
  std::unique_ptr<Cluster> cluster_; // destroyed before the buffers it may still use
  std::vector<std::unique_ptr<FaultyDevice>> devices_;
  std::vector<std::unique_ptr<Prepared>> bound_;
  uint32_t runs_ = 0;
  bool prepared_ = false;
};

/// Damages the transfers of one mesh, one a run, with undamaged runs in between.
class Saboteur {
public:
  explicit Saboteur(Mesh &mesh) : mesh_(mesh) {}

  void damageEverything() {
    expectPass(); // so that there is something stale to deliver
    for (int64_t rank = 0; rank < mesh_.ranks(); ++rank)
      for (uint32_t t = 0; t < mesh_.device(rank).transfers().size(); ++t) {
        expectObjection(rank, {Damage::Drop, t});
        expectObjection(rank, {Damage::Stale, t});
        damageElements(rank, t);
        misplace(rank, t);
      }
  }

  int64_t damaged() const { return damaged_; }

private:
  int64_t elementsOf(int64_t rank, uint32_t transfer) {
    const Endpoint &endpoint = mesh_.device(rank).transfers()[transfer];
    return endpoint.range.bytes / sizeOf(endpoint.dtype);
  }

  void damageElements(int64_t rank, uint32_t transfer) {
    const int64_t elements = elementsOf(rank, transfer);
    if (elements > 1) // one element has no neighbour
      expectObjection(rank, {Damage::Shifted, transfer});
    const uint64_t drawn = 0x9e3779b97f4a7c15 * uint64_t(++damaged_) >> 20;
    for (int64_t element : {int64_t(0), elements - 1, int64_t(drawn % uint64_t(elements))})
      expectObjection(rank, {Damage::OffByOne, transfer, 0, element});
  }

  /// Delivers the same rows of every rank's block: exactly one of these blocks is the right one.
  void misplace(int64_t rank, uint32_t transfer) {
    const int64_t blockBytes = mesh_.reference().inputBytes(0);
    const int64_t offset = mesh_.device(rank).transfers()[transfer].range.offset % blockBytes;
    int64_t passed = 0;
    for (int64_t owner = 0; owner < mesh_.ranks(); ++owner) {
      std::vector<char> block(blockBytes);
      mesh_.reference().fillInput(0, owner, mesh_.nextRun(), block.data());
      const Fault fault{Damage::Misplaced, transfer, 0, 0, block.data() + offset};
      passed += runWith(rank, fault).isOk();
    }
    EXPECT_EQ(passed, 1) << "rank " << rank << ", transfer " << transfer;
    expectPass();
  }

  void expectObjection(int64_t rank, const Fault &fault) {
    const Status status = runWith(rank, fault);
    EXPECT_EQ(status.code(), StatusCode::WrongResult)
        << name(fault.damage) << ", rank " << rank << ", transfer " << fault.transfer
        << ", element " << fault.element << ": " << status.message();
    expectPass();
  }

  Status runWith(int64_t rank, Fault fault) {
    fault.run = mesh_.nextRun();
    const int64_t before = mesh_.device(rank).struck();
    mesh_.device(rank).inject(fault);
    const Status status = mesh_.run();
    EXPECT_EQ(mesh_.device(rank).struck(), before + 1);
    ++damaged_;
    return status;
  }

  void expectPass() {
    const Status status = mesh_.run();
    EXPECT_TRUE(status.isOk()) << status.message();
  }

  Mesh &mesh_;
  int64_t damaged_ = 0;
};

std::string matmul(const char *dtype, int64_t d, int64_t rows, int64_t k, int64_t n) {
  return fmt::format(
      "fusion @f(D = {1}) {{\n  mesh [0 .. D)\n  %A = input {0}[DIDx{{D}}, {2}, {3}]\n"
      "  %B = input {0}[{3}, {4}]\n  %C = matmul %A, %B : {0}[Stream{{D}}, {2}, {4}]\n"
      "  output %C\n}}\n",
      dtype, d, rows, k, n);
}

std::string linear(const char *dtype, int64_t d, int64_t rows, int64_t k, int64_t n) {
  return fmt::format(
      "fusion @f(D = {1}) {{\n  mesh [0 .. D)\n  %x = input {0}[DIDx{{D}}, {2}, {3}]\n"
      "  %w = input {0}[{4}, {3}]\n  %bias = input {0}[{4}]\n"
      "  %y = linear %x, %w, %bias : {0}[Stream{{D}}, {2}, {4}]\n  output %y\n}}\n",
      dtype, d, rows, k, n);
}

std::string columns(const char *dtype, int64_t d, int64_t rows, int64_t k, int64_t n) {
  return fmt::format(
      "fusion @f(D = {1}) {{\n  mesh [0 .. D)\n  %A = input {0}[DIDx{{D}}, {2}, {3}]\n"
      "  %B = input {0}[{3}, DIDx{{D}}, {4}]\n"
      "  %C = matmul %A, %B : {0}[Stream{{D}}, {2}, DIDx{{D}}, {4}]\n"
      "  output %C\n}}\n",
      dtype, d, rows, k, n);
}

/// Every schedule with every protocol; shapes, element types, chunks and streams change along.
std::vector<Case> cases() {
  return {
      {matmul("bf16", 4, 3, 16, 8), "pairwise;protocol=get;streams=4"},
      {matmul("bf16", 3, 4, 10, 3), "pairwise;protocol=put;streams=2;chunks=2"},
      {matmul("f32", 3, 1, 5, 1), "ring;protocol=get;streams=3"},
      {matmul("f16", 2, 1, 1, 1), "ring;protocol=put;streams=1"},
      {matmul("f64", 3, 2, 1, 4), "sequential;protocol=get;streams=2"},
      {matmul("bf16", 3, 5, 7, 1), "sequential;protocol=put;streams=2;chunks=2"},
      {matmul("bf16", 2, 2, 64, 1), "pairwise;protocol=put;streams=5"},
      {linear("bf16", 3, 5, 9, 6), "pairwise;protocol=get;streams=3;chunks=3"},
      {linear("f16", 4, 2, 4, 11), "ring;protocol=put;streams=4"},
      {linear("f32", 2, 7, 2, 2), "ring;protocol=get;streams=2;chunks=3"},
      {linear("f64", 5, 1, 3, 1), "sequential;protocol=get;streams=4"},
      {columns("bf16", 3, 3, 8, 4), "ring;protocol=put;streams=2;chunks=2"},
      {columns("f32", 4, 1, 6, 1), "pairwise;protocol=get;streams=3"},
      {columns("f16", 2, 4, 1, 3), "sequential;protocol=put;streams=1;chunks=2"},
  };
}

class Corruption : public testing::TestWithParam<Case> {};

TEST_P(Corruption, IsSeenInEveryTransfer) {
  Mesh mesh(GetParam());
  ASSERT_TRUE(mesh.isPrepared());
  Saboteur saboteur(mesh);
  saboteur.damageEverything();
  EXPECT_GT(saboteur.damaged(), 0);
}

/// In the first run there is nothing stale: what is not delivered is zero.
TEST_P(Corruption, IsSeenInTheFirstRun) {
  int64_t transfers = 1;
  for (int64_t t = 0; t < transfers; ++t) {
    Mesh mesh(GetParam());
    ASSERT_TRUE(mesh.isPrepared());
    const int64_t rank = t % mesh.ranks();
    transfers = static_cast<int64_t>(mesh.device(rank).transfers().size());
    mesh.device(rank).inject({Damage::Drop, static_cast<uint32_t>(t)});
    EXPECT_EQ(mesh.run().code(), StatusCode::WrongResult) << "rank " << rank << ", transfer " << t;
  }
}

std::string caseName(const testing::TestParamInfo<Case> &tested) {
  const Configuration used = configured(tested.param.options).all;
  return fmt::format("case{}_{}_{}", tested.index, used.preset().str(),
                     name(used.protocol()).str());
}

INSTANTIATE_TEST_SUITE_P(Cases, Corruption, testing::ValuesIn(cases()), caseName);

} // namespace
