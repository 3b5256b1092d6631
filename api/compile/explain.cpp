//===- api/compile/explain.cpp - explains how a program was lowered ---------------------------===//

#include "api/compile/compiled_program.h"
#include "api/compile/plans.h"
#include "ir/counted.h"
#include "ir/failure.h"
#include "lowering/stages/fusion_stages.h"
#include "runtime/plan/overlap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace braid {
namespace {

std::string explainKnobs(const Configurations &schedule, bool isChosen) {
  const Configuration &used = schedule.all;
  const bool isByStage = isChosen && !schedule.stages.empty();
  auto why = [&](bool isGiven) {
    return isChosen ? "chosen by auto" : isGiven ? "as requested" : "the default";
  };
  std::string text;
  if (!isByStage)
    text += explainLine("schedule", used.preset().str(),
                        why(used.get(presetFields().front()).has_value()));
  for (const KnobRow &row : allKnobs()) {
    if (isByStage && !row.isOfRun())
      continue;
    const std::optional<int64_t> value = used.get(row.knob);
    text += explainLine(row.name, row.str(value ? value : row.fallback), why(value.has_value()));
  }
  for (const Configurations::OfStage &stage : schedule.stages)
    text += explainLine("%" + stage.tensor, stage.config.str(),
                        std::string(isByStage ? "chosen by auto" : "as requested") +
                            " for the stage that computes this tensor");
  return text;
}

/// The transfers of a stage, or of a whole program that was not lowered, in the Plan of the first
/// rank that has transfers.
struct Overlap {
  std::string name; ///< "%C" or "@program"
  MovingStage stage = {};
  int64_t rank = 0, transfers = 0, besideGemms = 0;
  bool areBetweenGemms = false; ///< true if some transfers alternate with GEMMs on a stream

  void add(int64_t ofRank, const PlanTransfer &transfer) {
    rank = transfers == 0 ? ofRank : rank;
    if (rank != ofRank)
      return;
    ++transfers;
    besideGemms += transfer.isBesideGemm;
    areBetweenGemms |= transfer.isBetweenGemms;
  }

  /// Returns, e.g., "%C is not overlapped: no GEMM can run during its 3 transfers, because ...".
  std::string str() const {
    const std::string count = counted(transfers, "transfer");
    if (besideGemms != 0)
      return fmt::format("GEMMs can overlap with {} of {} of {}", besideGemms, count, name);
    const std::string why =
        !stage.whyWhole.empty() ? ", because " + stage.whyWhole
        : areBetweenGemms
            ? ", because they alternate with GEMMs on the same stream; use more streams"
            : "";
    return fmt::format("{} is not overlapped: no GEMM can run during its {}{}", name, count, why);
  }
};

/// The number of ranks whose Plans are inspected. All ranks have similar Plans, except that rank 0
/// may receive nothing if rows are divided unevenly.
constexpr int64_t kRanksLookedAt = 2;

/// If the program was lowered, with schedule `used`, returns an entry for each stage that moves
/// data. Otherwise, returns a single entry for the whole program.
Result<std::vector<Overlap>> overlapsOf(const Compiled &compiled, const Configurations &used) {
  std::vector<Overlap> overlaps;
  if (!compiled.isLowered)
    overlaps.push_back({"@" + compiled.program->name()});
  else
    for (MovingStage &stage : movingStagesOf(*compiled.fusion, used))
      overlaps.push_back({"%" + stage.result, std::move(stage)});
  Diagnostics unheard(compiled.source->diags.fileName(), "");
  for (int64_t rank = 0; rank < std::min(kRanksLookedAt, compiled.program->ranks()); ++rank) {
    const Plan plan = BRAID_TRY(makePlan(compiled, rank, unheard));
    for (const PlanTransfer &transfer : transfersOf(plan)) {
      const Location location = plan.sites[plan.origins[transfer.origin].site].location;
      for (Overlap &overlap : overlaps)
        if (!compiled.isLowered || overlap.stage.location == location)
          overlap.add(rank, transfer);
    }
  }
  return overlaps;
}

/// Counts the stages that overlap some of their transfers, and explains the exposed transfers.
std::string explainOverlap(const Compiled &compiled, const Configurations &used) {
  const Result<std::vector<Overlap>> overlaps = overlapsOf(compiled, used);
  if (!overlaps)
    return explainLine("overlap", "unknown", overlaps.status().message());
  int hidden = 0;
  std::vector<std::string> exposed;
  for (const Overlap &overlap : *overlaps) {
    hidden += overlap.besideGemms != 0;
    if (overlap.besideGemms < overlap.transfers)
      exposed.push_back(overlap.str());
  }
  const auto count = static_cast<int64_t>(overlaps->size());
  return explainLine(
      "overlap",
      fmt::format("{} of {}", hidden, counted(count, compiled.isLowered ? "stage" : "program")),
      !exposed.empty()     ? fmt::format("{}", fmt::join(exposed, "; "))
      : compiled.isLowered ? "every stage that communicates"
                           : "every transfer");
}

} // namespace

std::string explainLine(llvm::StringRef what, const std::string &value, const std::string &why) {
  return fmt::format("  {:<12}{}: {}\n", what.str(), value, why);
}

std::string ProgramState::explain() const {
  std::string text = compiled.isLowered ? explainKnobs(schedule, !choice.empty())
                                        : explainLine("program", "@" + compiled.program->name(),
                                                      "handwritten; not generated from a fusion");
  if (compiled.isReproducible)
    text += explainLine("same bits", "yes",
                        "reproducible: GEMM algorithms do not depend on M, and partial results are "
                        "added in rank order");
  return text + explainOverlap(compiled, schedule);
}

void warnOfNoOverlap(const Compiled &compiled, const Configurations &given) {
  const Result<std::vector<Overlap>> overlaps = overlapsOf(compiled, given);
  if (!overlaps)
    return; // the caller that makes the Plans reports the failure
  for (const Overlap &overlap : *overlaps)
    if (overlap.transfers != 0 && overlap.besideGemms == 0 && !overlap.stage.asksForWhole)
      compiled.source->diags.warning(overlap.stage.location) << overlap.str();
}

} // namespace braid
