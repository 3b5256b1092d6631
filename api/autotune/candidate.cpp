//===- api/autotune/candidate.cpp - one way to run a fusion -----------------------------------===//

#include "api/autotune/candidate.h"

namespace braid {
namespace {

// The runtime's values are in the order of the table, but transfer modes also have Default.
static_assert(int(CopyBy::Engine) == int(schedule::Copies::Engine) + 1);
static_assert(int(CopyBy::Kernel) == int(schedule::Copies::Kernel) + 1);
static_assert(int(SignalBy::Memory) == int(schedule::Signals::Memory) + 1);
static_assert(int(SignalBy::Kernel) == int(schedule::Signals::Kernel) + 1);
static_assert(int(MemoryFrom::Ipc) == int(schedule::Memory::Ipc) + 1);
static_assert(int(MemoryFrom::Vmm) == int(schedule::Memory::Vmm) + 1);
static_assert(int(LaunchMode::Eager) == int(schedule::Launch::Eager));
static_assert(int(LaunchMode::Graph) == int(schedule::Launch::Graph));

template <class Mode> Mode modeOf(const Configuration &config, Knob knob) {
  return static_cast<Mode>(config.get(knob).value_or(-1) + 1);
}

template <class Mode> std::optional<int64_t> valueOf(Mode mode) {
  return mode == Mode::Default ? std::nullopt : std::optional(static_cast<int64_t>(mode) - 1);
}

} // namespace

CompileOptions applyTo(CompileOptions options, const Configurations &chosen) {
  options = applyTo(std::move(options), chosen.all);
  if (!chosen.stages.empty())
    options.schedule.stages = chosen.stages;
  return options;
}

CompileOptions applyTo(CompileOptions options, const Configuration &config) {
  options.isAuto = false;
  options.schedule.all = config.over(options.schedule.all);
  return options;
}

TransferMode transferModeOf(const Configuration &config) {
  return {modeOf<CopyBy>(config, Knob::Copies), modeOf<SignalBy>(config, Knob::Signals),
          modeOf<MemoryFrom>(config, Knob::Memory)};
}

LaunchMode launchModeOf(const Configuration &config) {
  return static_cast<LaunchMode>(config.launch());
}

Configuration withTransferMode(Configuration config, TransferMode mode) {
  return config.set(Knob::Copies, valueOf(mode.copies))
      .set(Knob::Signals, valueOf(mode.signals))
      .set(Knob::Memory, valueOf(mode.memory));
}

std::string familyOf(const Candidate &candidate) {
  std::string family = candidate.preset().str();
  for (Knob knob :
       {Knob::Placement, Knob::Reduction, Knob::Protocol, Knob::SecondShot, Knob::Partials})
    family += " " + rowOf(knob).str(candidate.valueOf(knob));
  return family + " " + rowOf(Knob::DataPlane).str(candidate.get(Knob::DataPlane)) + " " +
         str(transferModeOf(candidate));
}

} // namespace braid
