//===- tests/fuzz/fuzz_pair_report.cpp - any text, in the place of a report about pairs -------===//

#include "api/pairs/heat_map.h"
#include "api/pairs/matrix.h"
#include "api/pairs/report_json.h"

#include <cstdlib>

/// What is accepted is judged and shown without an end, and is written as it would be read.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  braid::Result<braid::PairReport> report = braid::decodePairReport(text);
  if (!report) {
    if (report.status().message().empty())
      std::abort();
    return 0;
  }
  const std::vector<braid::Verdict> verdicts = braid::judge(*report);
  const braid::Recommendations all = braid::recommend(*report, verdicts);
  (void)braid::matrixText(*report, verdicts, all, {.colours = true, .allPaths = true});
  (void)braid::heatMapSvg(*report, verdicts);
  (void)braid::heatMapHtml(*report, verdicts, all);
  const std::string written = braid::encodePairReport(*report, verdicts, all);
  braid::Result<braid::PairReport> again = braid::decodePairReport(written);
  if (!again)
    std::abort();
  const std::vector<braid::Verdict> same = braid::judge(*again);
  if (braid::encodePairReport(*again, same, braid::recommend(*again, same)).size() == 0)
    std::abort();
  return 0;
}
