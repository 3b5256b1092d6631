//===- tests/fuzz/fuzz_bench.cpp - any text, in the place of a bench's results or answers -----===//

#include "api/bench/bench_results.h"
#include "tools/bench/worker/answer.h"

#include <cstdlib>

using Json = nlohmann::json;

namespace {

/// It has shapes.
const braid::Operation kOperation;

/// What was read says something about each shape, whatever it is, and is read again as it was.
void checkRows(const std::vector<braid::BenchRow> &rows) {
  for (const braid::BenchRow &row : rows) {
    braid::ShapeSummary summary = braid::ShapeSummary::of(braid::rowsOfShape(rows, row.shape));
    (void)summary.verdict();
    (void)summary.efficiency(row);
    (void)summary.speedUp(row);
    (void)summary.hiddenShare(row);
    const Json json = braid::toJson(row);
    braid::Result<braid::BenchRow> again = braid::benchRowFrom(json, kOperation);
    if (!again || braid::toJson(*again) != json)
      std::abort();
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  if (auto file = braid::readResultsFile(text, Json::object(), kOperation))
    checkRows(file->rows);
  (void)braid::readResultsFile(text, {{"operation", "gather-matmul"}}, kOperation);
  const Json message = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!message.is_object())
    return 0;
  (void)braid::tools::answers(message, 1);
  if (auto answer = braid::tools::Answer::from(message))
    if (answer->samples.empty() == answer->failure.empty())
      std::abort();
  return 0;
}
