//===- api/bench/bench_row.cpp - one row of a bench, ready to be lowered ----------------------===//

#include "api/bench/bench_row.h"

#include "api/autotune/candidate.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

bool namesStages(llvm::StringRef row) {
  llvm::SmallVector<llvm::StringRef, 4> parts;
  row.split(parts, ',');
  return llvm::any_of(parts, [](llvm::StringRef part) {
    auto [name, value] = part.split(';').first.split('=');
    return !value.empty() && !findKnob(name);
  });
}

/// What the name has behind its first word, if that is no schedule itself.
static llvm::StringRef scheduleIn(llvm::StringRef name) {
  auto [what, knobs] = name.split(';');
  return isPreset(what) || namesStages(name) ? name : knobs;
}

Result<TimedRow> readRowName(const std::string &name, int64_t ranks, bool isGraphed,
                             CompileOptions options) {
  Result<Configurations> schedule = Configurations::parse(scheduleIn(name));
  if (!schedule)
    return schedule.status().annotated("--impl " + name);
  const Configuration config = schedule->all.over(options.schedule.all);
  if (namesStages(name))
    options.schedule.stages = schedule->stages;
  TimedRow row;
  row.name = name;
  row.isGraphed = config.get(Knob::Launch) ? launchModeOf(config) == LaunchMode::Graph : isGraphed;
  row.transferMode = transferModeOf(config);
  row.options = std::move(options);
  row.options.ranks = ranks;
  row.options.schedule.all = config;
  return row;
}

} // namespace braid
