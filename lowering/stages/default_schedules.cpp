//===- lowering/stages/default_schedules.cpp - schedules for shapes that were not measured ----===//

#include "lowering/stages/default_schedules.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

namespace braid {
namespace {

enum class Movement { Gather, ReturningGather, Scatter, AllReduce };

/// A GEMM with fewer rows per rank than this leaves most of a GPU idle, however many
/// multiplications it has. A stage with such a GEMM is treated as having no multiplications.
constexpr double kFewRows = 512;
constexpr double kAny = std::numeric_limits<double>::infinity();

/// A schedule, and the range of stages for which it was the fastest.
struct Row {
  Movement movement;
  double least, below; ///< multiplications per rank
  const char *schedule;
  double leastRanks = 1, mostRanks = kAny;
  double mostDepth = kAny;  ///< depth of the GEMM on one rank
  double leastElements = 0; ///< number of elements in the result
  int leastGemms = 1;       ///< number of GEMMs that share a gather
};

// If a gather also returns A, a get transfers A directly to the output; a put requires an extra
// copy, which `bulk` cannot hide. On two ranks, the GEMMs of a ring can add the partial results,
// because each sum is rounded only once. If a GEMM takes less time than the transfer, it stores
// its result in the peer's memory. If several GEMMs with less than 20e9 multiplications in total
// share a gather, each is too small to be split; if they have at least 40e9, the first alone hides
// the transfer, and the others need not be split. In a one-shot all-reduce, each rank receives all
// elements from all other ranks, so large results on more than two ranks use two shots.
constexpr Row kDefaults[] = {
    {Movement::Gather, 0, 6e9, "bulk;protocol=put;copies=kernel"},
    {Movement::Gather, 6e9, 20e9, "pairwise;protocol=put;copies=kernel"},
    {Movement::Gather, 20e9, kAny,
     "pairwise;placement=shared;protocol=put;copies=engine;signals=memory"},
    {Movement::ReturningGather, 0, 6e9, "bulk;copies=kernel"},
    {Movement::ReturningGather, 6e9, 20e9, "bulk;copies=kernel", 1, kAny, kAny, 0,
     /*leastGemms=*/2},
    {Movement::ReturningGather, 6e9, 20e9, "pairwise;protocol=put;copies=kernel"},
    {Movement::ReturningGather, 40e9, kAny,
     "pairwise;stepwise=first;placement=shared;protocol=put;copies=engine;signals=memory", 1, kAny,
     kAny, 0,
     /*leastGemms=*/2},
    {Movement::ReturningGather, 20e9, kAny,
     "pairwise;placement=shared;protocol=put;copies=engine;signals=memory"},
    {Movement::Scatter, 6e9, kAny,
     "ring;sums=gemm;protocol=put;partials=peer;streams=1;copies=kernel", 2, 2,
     /*mostDepth=*/2048},
    {Movement::Scatter, 130e9, kAny, "ring;sums=gemm;chunks=2;copies=engine;signals=memory", 2, 2},
    {Movement::Scatter, 0, 6e9, "bulk;copies=kernel"},
    {Movement::Scatter, 6e9, kAny, "pairwise;placement=shared;copies=engine;signals=memory"},
    {Movement::AllReduce, 0, 1, "bulk;reduction=two-shot;second-shot=put;copies=kernel", 3, kAny,
     kAny, /*leastElements=*/1 << 18},
    {Movement::AllReduce, 0, 40e9, "bulk;copies=kernel"},
    {Movement::AllReduce, 40e9, kAny,
     "pairwise;placement=shared;reduction=two-shot;protocol=put;chunks=2;streams=6;"
     "copies=engine;signals=memory"},
};

/// The GEMMs of a stage on one rank, which share their first operand.
struct Work {
  Movement movement;
  double rows = 0; ///< total number of rows on all ranks
  double columns = 0, depth = 0;
  int gemms = 0;

  double multiplications(int64_t ranks) const {
    return rows < kFewRows * static_cast<double>(ranks) ? 0 : rows * columns * depth;
  }
};

double productOf(llvm::ArrayRef<int64_t> extents) {
  return static_cast<double>(*elementCount(extents));
}

/// Returns the total number of valid rows of a GEMM's first operand over all ranks.
double rowsOf(const Fusion &fusion, const FusionType &type, size_t axes) {
  const double rows = productOf(llvm::ArrayRef<int64_t>(fusion.globalShape(type)).take_front(axes));
  const std::optional<UnevenRows> uneven = fusion.unevenRows(type);
  return uneven ? rows * double(uneven->total) / double(uneven->blocks * uneven->rows) : rows;
}

Movement movementOf(const Fusion &fusion, const FusionNode &gemm) {
  if (isContractedOverDevices(gemm))
    return resultOf(gemm)->type.find(AxisKind::DIDx) ? Movement::Scatter : Movement::AllReduce;
  const bool isReturned = llvm::any_of(fusion.nodes(), [&](const auto &node) {
    return node->kind == FusionOpKind::Reshard && node->a() == gemm.a();
  });
  return isReturned ? Movement::ReturningGather : Movement::Gather;
}

double columnsOf(const Fusion &fusion, const FusionNode &gemm) {
  const auto [first, second, count] = contractionOf(gemm);
  const Shape b = fusion.localShape(gemm.b()->type);
  return productOf(b) / productOf(llvm::ArrayRef<int64_t>(b).slice(second, count));
}

std::optional<Work> workOf(const Fusion &fusion, const FusionStage &stage) {
  std::optional<Work> work;
  for (const auto &node : fusion.nodes()) {
    if (!isGemm(*node) || !llvm::is_contained(stage.tensors, resultOf(*node)->name))
      continue;
    const size_t rows = contractionOf(*node).first;
    double depth = 0; // of all products that the node adds
    for (size_t i = 0; i < node->pairs(); ++i) {
      const Shape a = fusion.localShape(node->a(i)->type);
      depth += productOf(llvm::ArrayRef<int64_t>(a).drop_front(rows));
    }
    if (!work)
      work = Work{movementOf(fusion, *node), rowsOf(fusion, node->a()->type, rows), 0, depth};
    work->columns += columnsOf(fusion, *node);
    ++work->gemms;
  }
  return work;
}

bool fits(const Row &row, const Work &work, double ranks) {
  const double multiplications = work.multiplications(static_cast<int64_t>(ranks));
  return row.movement == work.movement && row.least <= multiplications &&
         multiplications < row.below && row.leastRanks <= ranks && ranks <= row.mostRanks &&
         work.depth <= row.mostDepth && work.rows * work.columns >= row.leastElements &&
         work.gemms >= row.leastGemms;
}

} // namespace

std::vector<Configuration> defaultSchedules(const Fusion &fusion, const FusionStage &stage) {
  std::vector<Configuration> schedules;
  const std::optional<Work> work = stage.moves ? workOf(fusion, stage) : std::nullopt;
  for (const Row &row : kDefaults)
    if (work && fits(row, *work, static_cast<double>(fusion.ranks())))
      schedules.push_back(*Configuration::parse(row.schedule));
  return schedules;
}

} // namespace braid
