//===- tests/fuzz/fuzz_pair_report.cpp - any text, in the place of a report about pairs -------===//

#include "api/pairs/heat_map.h"
#include "api/pairs/matrix.h"
#include "api/pairs/report_json.h"

#include <cstdlib>

/// What is accepted is judged and shown, and is written in a way that is read as it was.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  braid::Result<braid::PairReport> report = braid::decodePairReport(text);
  if (!report) {
    if (report.status().code() != braid::StatusCode::BadInput || report.status().message().empty())
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
  // Remarks are made from figures that may have had more digits.
  const size_t rest = written.find("\n \"remarks\"");
  if (!again ||
      braid::encodePairReport(*again, verdicts, all).substr(0, rest) != written.substr(0, rest))
    std::abort();
  return 0;
}
