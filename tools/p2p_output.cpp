//===- tools/p2p_output.cpp - what `braid p2p` takes and prints -------------------------------===//

#include "api/pairs/heat_map.h"
#include "api/pairs/matrix.h"
#include "api/pairs/measuring_job.h"
#include "api/pairs/pair_names.h"
#include "api/pairs/report_json.h"
#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/files.h"
#include "tools/p2p.h"
#include "tools/process.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include <unistd.h>

namespace braid::tools {
namespace {

constexpr int64_t kGrowth = 4, kUsualLeast = 4, kUsualMost = int64_t(1) << 30;

Status checkSize(const char *flag, int64_t bytes) {
  if (bytes >= kLeastTransfer && bytes <= kMostTransfer && bytes % 4 == 0)
    return Status::ok();
  return badInput("expected {} to be a multiple of 4 from {} to {}, got {}", flag, kLeastTransfer,
                  kMostTransfer, bytes);
}

Status readSizes(const P2pFlags &flags, std::vector<int64_t> &sizes) {
  if (!flags.sizes.empty() && (flags.minBytes || flags.maxBytes))
    return badInput("expected --sizes, or --min-bytes and --max-bytes, got both");
  for (int64_t bytes : flags.sizes)
    BRAID_TRY(checkSize("--sizes", bytes));
  const int64_t least = flags.minBytes.value_or(kUsualLeast);
  const int64_t most = flags.maxBytes.value_or(std::max(kUsualMost, least));
  BRAID_TRY(checkSize("--min-bytes", least));
  BRAID_TRY(checkSize("--max-bytes", most));
  if (least > most)
    return badInput("expected --min-bytes to be at most --max-bytes = {}, got {}", most, least);
  sizes = flags.sizes;
  for (int64_t bytes = least; sizes.empty() || (flags.sizes.empty() && bytes <= most);
       bytes *= kGrowth)
    sizes.push_back(bytes);
  llvm::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() > kMostPairPoints)
    return badInput("expected --sizes to be at most {} sizes, got {}", kMostPairPoints,
                    sizes.size());
  return Status::ok();
}

Status readPaths(const P2pFlags &flags, std::vector<Path> &paths) {
  std::vector<std::string> known;
  for (llvm::StringRef word : pathNames())
    known.push_back(word.str());
  for (const std::string &word : flags.paths.empty() ? known : flags.paths) {
    const std::optional<Path> path = pathFromName(word);
    if (!path)
      return badChoice("--paths", word, known);
    if (!llvm::is_contained(paths, *path))
      paths.push_back(*path);
  }
  llvm::sort(paths);
  return Status::ok();
}

/// Where to write what was interrupted: whoever finds a file of the name that was asked for takes
/// it for complete. What is written in place, a pipe say, is there once.
std::string partialPlace(const std::string &file) {
  return isReplacedAsAWhole(file) ? file + ".partial" : file;
}

} // namespace

bool P2pFlags::writesToStandardOutput() const { return json == "-" || html == "-" || svg == "-"; }

Status readP2pFlags(const P2pFlags &flags, MeasureOptions &options) {
  BRAID_TRY(readPaths(flags, options.paths));
  BRAID_TRY(readSizes(flags, options.sizes));
  if (flags.timeoutMs < 1 || flags.timeoutMs > 86400000)
    return badInput("expected --timeout-ms to be from 1 to 86400000, got {}", flags.timeoutMs);
  options.timeout = std::chrono::milliseconds(flags.timeoutMs);
  return Status::ok();
}

Status printP2p(const P2pFlags &flags, const PairReport &report, bool isInterrupted) {
  const std::vector<Verdict> verdicts = judge(report);
  const Recommendations recommendations = recommend(report, verdicts);
  const bool isAside = flags.writesToStandardOutput();
  llvm::raw_ostream &os = isAside ? llvm::errs() : llvm::outs();
  MatrixOptions options;
  options.colours = wantsColours(isAside ? STDERR_FILENO : STDOUT_FILENO);
  options.allPaths = flags.allPaths;
  os << matrixText(report, verdicts, recommendations, options);
  if (report.together != PathOutcome::Measured && !report.togetherReason.empty())
    os << fmt::format("All pairs at once {}: {}.\n", name(report.together).str(),
                      report.togetherReason);
  os.flush();
  Status first; // whatever becomes of one file, the others are written
  auto write = [&](const std::string &file, const std::string &text) {
    const std::string place = isInterrupted ? partialPlace(file) : file;
    const Status status = writeFile(place, text);
    if (status.isOk() && place != file)
      llvm::errs() << fmt::format("braid: what had been measured is in '{}'; '{}' is as it was\n",
                                  printable(place, PATH_MAX), printable(file, PATH_MAX));
    if (first.isOk())
      first = status;
  };
  if (!flags.json.empty())
    write(flags.json, encodePairReport(report, verdicts, recommendations));
  if (!flags.html.empty())
    write(flags.html, heatMapHtml(report, verdicts, recommendations));
  if (!flags.svg.empty())
    write(flags.svg, heatMapSvg(report, verdicts));
  return first;
}

} // namespace braid::tools
