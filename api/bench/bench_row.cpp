//===- api/bench/bench_row.cpp - one row of a bench, ready to be lowered ----------------------===//

#include "api/bench/bench_row.h"

#include "api/autotune/candidate.h"

namespace braid {

Result<TimedRow> readRowName(const std::string &name, int64_t ranks, bool isGraphed,
                             CompileOptions options) {
  auto [what, knobs] = llvm::StringRef(name).split(';');
  const bool isSchedule = isPreset(what);
  Configuration config;
  if (isSchedule || !knobs.empty()) {
    Result<Configuration> parsed = Configuration::parse(isSchedule ? llvm::StringRef(name) : knobs);
    if (!parsed)
      return parsed.status().annotated("--impl " + name);
    config = *parsed;
  }
  config = config.over(options.schedule.all);
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
