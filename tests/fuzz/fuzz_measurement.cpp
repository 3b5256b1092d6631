//===- tests/fuzz/fuzz_measurement.cpp - any text, in the place of what ranks measure ---------===//

#include "api/pairs/measurement.h"
#include "api/pairs/measuring_job.h"

#include <cstdlib>

/// What is accepted is written as a text that says the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace braid;
  const std::string text(reinterpret_cast<const char *>(data), size);
  if (const Result<Measurement> line = Measurement::decode(text)) {
    std::string written = line->encode();
    if (written.empty() || written.back() != '\n')
      std::abort();
    written.pop_back();
    const Result<Measurement> again = Measurement::decode(written);
    if (!again || again->encode() != line->encode())
      std::abort();
  } else if (line.status().message().empty()) {
    std::abort();
  }
  if (const Result<MeasuringJob> job = MeasuringJob::decode(text)) {
    const Result<MeasuringJob> again = MeasuringJob::decode(job->encode());
    if (!again || *again != *job)
      std::abort();
  } else if (job.status().message().empty()) {
    std::abort();
  }
  return 0;
}
