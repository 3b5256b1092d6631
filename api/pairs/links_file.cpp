//===- api/pairs/links_file.cpp - which devices ranks get, by what was measured ---------------===//

#include "api/pairs/links_file.h"

#include "api/machine/ask_nvml.h"
#include "api/pairs/pair_figures.h"
#include "api/pairs/recommend.h"
#include "api/pairs/report_json.h"
#include "ir/failure.h"
#include "runtime/files.h"
#include "runtime/host_name.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace braid {
namespace {

Status checkMachine(const PairReport &report, const std::string &host,
                    llvm::ArrayRef<std::string> uuids) {
  if (report.backend != "cuda")
    return badInput("expected a report about GPUs, got one of backend '{}'", report.backend);
  for (const MachineDevice &device : report.devices)
    if (!llvm::is_contained(uuids, device.uuid))
      return badInput("expected a report about GPUs that are here, on '{}' ({}), got one about "
                      "'{}' on '{}'",
                      host, fmt::join(uuids, ", "), device.uuid, report.hostname);
  return Status::ok();
}

/// In GB/s, of these one behind the other, and the first behind the last; 0: they are not joined.
double slowestHop(const std::vector<int64_t> &devices, const PairTable &table) {
  double least = 1e300;
  for (size_t i = 0; i < devices.size(); ++i) {
    const PairRow *row = table.row(static_cast<size_t>(devices[i]),
                                   static_cast<size_t>(devices[(i + 1) % devices.size()]));
    least = std::min(least, row ? bestBandwidth(*row) : 0);
  }
  return least;
}

/// So many of the ring, one behind the other: those whose slowest hop is fastest.
std::vector<int64_t> partOf(const std::vector<int64_t> &ring, size_t count,
                            const PairTable &table) {
  auto part = [&](size_t first) {
    std::vector<int64_t> devices;
    for (size_t i = 0; i < count; ++i)
      devices.push_back(ring[(first + i) % ring.size()]);
    return devices;
  };
  std::vector<int64_t> best = part(0);
  for (size_t first = 1; first < ring.size() && count > 1 && count < ring.size(); ++first)
    if (std::vector<int64_t> other = part(first);
        slowestHop(other, table) > slowestHop(best, table))
      best = std::move(other);
  return best;
}

} // namespace

Result<LinkedRanks> chooseByLinks(const PairReport &report, int64_t ranks, const std::string &host,
                                  llvm::ArrayRef<std::string> uuids) {
  BRAID_TRY(checkMachine(report, host, uuids));
  const Recommendations all = recommend(report, judge(report));
  const std::vector<int64_t> &ring = all.order.devices;
  if (ranks < 1 || ranks > static_cast<int64_t>(ring.size())) {
    std::string why;
    for (const LeftOut &left : all.leaveOut)
      why += "; " + left.sentence;
    return badInput("expected at most {} ranks for the devices of the report, got {}{}",
                    ring.size(), ranks, why);
  }
  const PairTable table(report);
  const std::vector<int64_t> devices = partOf(ring, static_cast<size_t>(ranks), table);
  if (ranks > 1 && slowestHop(devices, table) <= 0)
    return badInput("expected a report with {} devices that reach each other in a ring, got none",
                    ranks);
  LinkedRanks linked;
  for (int64_t device : devices)
    linked.uuids.push_back(report.devices[static_cast<size_t>(device)].uuid);
  linked.sentence = fmt::format("ranks are on devices {} of the report", fmt::join(devices, ", "));
  return linked;
}

Result<LinkedRanks> readLinks(const std::string &path, int64_t ranks,
                              std::chrono::milliseconds patience) {
  const std::string text = BRAID_TRY(readFile(path, kMostPairReportBytes));
  const PairReport report = BRAID_TRY(decodePairReport(text));
  const NvmlReport nvml = BRAID_TRY(askNvml(processEnvironment(), patience));
  std::vector<std::string> uuids;
  for (const NvmlDevice &device : nvml.devices)
    uuids.push_back(device.uuid);
  return chooseByLinks(report, ranks, hostName(), uuids);
}

std::vector<std::pair<std::string, std::string>> environmentOf(const LinkedRanks &linked) {
  if (linked.uuids.empty())
    return {};
  return {{"CUDA_VISIBLE_DEVICES", fmt::format("{}", fmt::join(linked.uuids, ","))}};
}

} // namespace braid
