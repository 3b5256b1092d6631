//===- api/bench/bench_row.cpp - one row of a bench, ready to be lowered ----------------------===//

#include "api/bench/bench_row.h"

#include "api/autotune/candidates.h"
#include "ir/failure.h"
#include "runtime/plan/plan_parts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

constexpr RowType kTypes[] = {
    {"gemms", RowKind::Gemms, "the GEMMs alone, without splitting or transfers"},
    {"chunked", RowKind::ChunkedGemms, "the GEMMs alone, split into chunks as in the schedule"},
    {"transfers", RowKind::Transfers,
     "the transfers alone, including the addition of received partial results"},
    {"uncoupled", RowKind::Uncoupled,
     "GEMMs and transfers run concurrently, without waiting for each other"},
    {"sequential", RowKind::Sequential, "all transfers and then all GEMMs, or vice versa"},
    {"given", RowKind::Overlapped, "the schedule that the flags specify"},
    {"auto", RowKind::Overlapped, "the schedule that braid run --schedule auto chooses"},
};

llvm::StringRef firstWord(llvm::StringRef row) { return row.split(';').first; }

bool isSchedule(llvm::StringRef row) { return isPreset(firstWord(row)) || namesStages(row); }

/// Returns the options for a row, before the knobs in its name are applied. Omits the given chunks,
/// tail split, partials and stages if the row does not use the given schedule.
CompileOptions optionsOf(const BenchProblem &problem, llvm::StringRef name, RowKind kind) {
  CompileOptions options = problem.given;
  const llvm::StringRef preset = isPreset(firstWord(name)) ? firstWord(name) : "sequential";
  const bool isAsGiven = kind == RowKind::ChunkedGemms || kind == RowKind::Overlapped;
  if (!problem.isFusion || (isAsGiven && !isSchedule(name)))
    return options;
  Configuration &config = options.schedule.all;
  for (Knob knob : {Knob::Chunks, Knob::TailSplit, Knob::Partials})
    config.set(knob, std::nullopt);
  options.schedule.stages.clear();
  if (!namesStages(name))
    config = Configuration::parse(preset)->over(config);
  return options;
}

Status checkName(const BenchProblem &problem, llvm::StringRef name) {
  std::vector<llvm::StringRef> names;
  for (const RowType &type : kTypes)
    names.push_back(type.name);
  if (!problem.isFusion)
    names = {"gemms", "transfers", "uncoupled", "program"};
  if ((problem.isFusion && isSchedule(name)) || llvm::is_contained(names, firstWord(name)))
    return Status::ok();
  return badInput("--impl {}: expected one of {}{}, got '{}'", name.str(), llvm::join(names, ", "),
                  problem.isFusion ? ", " + presetNames() : "", firstWord(name).str());
}

} // namespace

llvm::ArrayRef<RowType> rowTypes() { return kTypes; }

RowKind kindOfRow(llvm::StringRef row) {
  const RowType *found =
      llvm::find_if(kTypes, [&](const RowType &type) { return firstWord(row) == type.name; });
  return found == std::end(kTypes) ? RowKind::Overlapped : found->kind;
}

bool namesStages(llvm::StringRef row) {
  return llvm::any_of(llvm::split(row, ','), [](llvm::StringRef part) {
    auto [name, value] = firstWord(part).split('=');
    return !value.empty() && !findKnob(name);
  });
}

Result<TimedRow> makeRow(const BenchProblem &problem, const std::string &name, bool isGraphed) {
  BRAID_TRY(checkName(problem, name));
  Result<Configurations> schedule = Configurations::parse(
      isSchedule(name) ? llvm::StringRef(name) : llvm::StringRef(name).split(';').second);
  if (!schedule)
    return schedule.status().annotated("--impl " + name);
  TimedRow row;
  row.name = name;
  row.file = problem.file;
  row.text = problem.text;
  row.kind = kindOfRow(name);
  row.isAuto = firstWord(name) == "auto";
  row.options = optionsOf(problem, name, row.kind);
  if (namesStages(name))
    row.options.schedule.stages = schedule->stages;
  Configuration &config = row.options.schedule.all;
  config = schedule->all.over(config);
  row.isGraphed = config.get(Knob::Launch) ? launchModeOf(config) == LaunchMode::Graph : isGraphed;
  return row;
}

Plan partOf(Plan plan, RowKind kind) {
  switch (kind) {
  case RowKind::Gemms:
  case RowKind::ChunkedGemms:
    return gemmsOf(std::move(plan));
  case RowKind::Transfers:
    return transfersAlone(std::move(plan));
  case RowKind::Uncoupled:
    return uncoupled(plan);
  case RowKind::Sequential:
  case RowKind::Overlapped:
    break;
  }
  return plan;
}

} // namespace braid
