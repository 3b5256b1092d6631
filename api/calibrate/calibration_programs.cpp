//===- api/calibrate/calibration_programs.cpp - tiny programs to time -------------------------===//

#include "api/calibrate/calibration_programs.h"

#include "api/compile/plans.h"
#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid::calibration {
namespace {

/// Returns the source text of the mesh, such as "[0 .. 8) of 4".
std::string textOf(const Mesh &mesh) {
  return fmt::format("[0 .. {}){}", mesh.ranks,
                     mesh.perHost == mesh.ranks ? "" : fmt::format(" of {}", mesh.perHost));
}

/// Returns an expression for the next ("+ 1") or previous ("- 1") rank on this host.
std::string neighbour(const Mesh &mesh, const char *distance) {
  return fmt::format("rank - rank mod {0} + (rank {1}) mod {0}", mesh.perHost, distance);
}

/// Returns statements that send to the previous rank and receive from the next rank.
std::string transfer(const Mesh &mesh, Protocol protocol, int number) {
  std::string send =
      fmt::format("  %s{} = p2p send %mine to {} via %h\n", number, neighbour(mesh, "- 1"));
  std::string receive =
      fmt::format("  %r{} = p2p recv %theirs from {} via %h\n", number, neighbour(mesh, "+ 1"));
  return protocol == Protocol::Get ? send + receive : receive + send;
}

} // namespace

Result<std::vector<Plan>> plansOf(const std::string &text, Transport transport) {
  std::unique_ptr<Source> source = parseSource("calibration", text);
  const Compiled compiled = BRAID_TRY(compile(*source, {.transport = transport}));
  return makePlans(compiled);
}

std::string sums(const Mesh &mesh, int64_t bytes, int sums) {
  constexpr int64_t kAligned = 64; // keeps the second part aligned
  // A sum moves three times 2 bytes per element; a copy of `bytes` moves each byte twice.
  const int64_t elements = std::max(bytes / 3 / kAligned, int64_t(1)) * kAligned;
  std::string text = fmt::format("program @sums mesh {0} () -> () {{\n"
                                 "  %parts = allocate device bf16[2, {1}]\n"
                                 "  %sum = allocate device bf16[{1}]\n",
                                 textOf(mesh), elements);
  for (int i = 0; i < sums; ++i)
    text += "  sum %sum, %parts\n";
  return text + "}\n";
}

std::string transferChain(const Mesh &mesh, Protocol protocol, int64_t bytes, int turns) {
  std::string text = fmt::format("program @transfers mesh {0} () -> () {{\n"
                                 "  %all = allocate symmetric bf16[2, {1}]\n"
                                 "  %h = share_mem_handles {2} %all\n"
                                 "  %mine = select %all[0]\n  %theirs = select %all[1]\n"
                                 "  %main = get_current_stream\n",
                                 textOf(mesh), bytes / 2, name(protocol).str());
  for (int i = 0; i < turns; ++i) {
    text += i % 2 == 0 ? "  set_current_stream stream(1)\n  synchronize %main\n"
                       : "  set_current_stream %main\n  synchronize stream(1)\n";
    text += transfer(mesh, protocol, i) + fmt::format("  wait %r{0}\n  wait %s{0}\n", i);
  }
  return text + "  set_current_stream %main\n  synchronize stream(1)\n}\n";
}

std::string gemms(const Mesh &mesh, const PlanMatmul &shape, int count) {
  const std::string b = shape.transposeB ? fmt::format("{}, {}", shape.n, shape.k)
                                         : fmt::format("{}, {}", shape.k, shape.n);
  std::string text = fmt::format("program @gemms mesh {0} (%A: {1}[{2}, {3}, {5}],\n"
                                 "    %B: {1}[{6}]) -> (%C: {7}[{2}, {3}, {4}]) {{\n",
                                 textOf(mesh), name(shape.dtype).str(), count, shape.m, shape.n,
                                 shape.k, b, name(shape.resultType()).str());
  for (int i = 0; i < count; ++i)
    text += fmt::format("  %a{0} = select %A[{0}]\n  %c{0} = select %C[{0}]\n"
                        "  {1} %c{0}, %a{0}, %B\n",
                        i, shape.transposeB ? "linear" : "matmul");
  return text + "}\n";
}

/// CPU ranks perform fewer runs, because they are slow. Large GEMMs are repeated as a warm-up until
/// clock rates are steady.
Result<std::vector<RunTime>> timeProgram(PlanTimer &timer, const std::string &what,
                                         const std::string &text, const ProgramTiming &timing) {
  std::vector<Plan> plans = BRAID_TRY(plansOf(text, timing.transport));
  for (Plan &plan : plans)
    if (!timing.hasCopies)
      llvm::erase_if(plan.commands, [](const Command &c) { return c.kind == CommandKind::Copy; });
  TimingEffort effort;
  if (timer.device().sharesHostMemory())
    effort = {.warmUp = 1, .least = 1, .most = 7, .budgetUs = 5000};
  effort.warmUpUs = timer.warmUpTimeUs(flopsOf(plans.front()));
  auto timeEach = [&]() -> Result<std::vector<RunTime>> {
    TimedPlan plan = BRAID_TRY(
        timer.makeReady(std::move(plans), timing.launchModes.front(), timing.transferMode));
    std::vector<RunTime> times;
    for (LaunchMode launchMode : timing.launchModes) {
      BRAID_TRY(timer.issueAs(plan, launchMode));
      times.push_back(BRAID_TRY(timer.time(plan, effort)));
    }
    return times;
  };
  Result<std::vector<RunTime>> times = timeEach();
  return times ? std::move(times) : times.status().annotated(what);
}

} // namespace braid::calibration
