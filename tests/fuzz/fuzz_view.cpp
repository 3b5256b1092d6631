//===- tests/fuzz/fuzz_view.cpp - any text as a trace or as records of a failed job -----------===//

#include "api/view/recorded.h"
#include "api/view/trace_text.h"

#include <cstdlib>

/// Accepted records result in a page, and a rejected trace in a message.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  const braid::Result<braid::view::TraceText> trace = braid::view::parseTrace("trace", text);
  if (!trace && trace.status().message().empty())
    std::abort();
  const braid::Result<braid::FlightRecords> records = braid::FlightRecords::decode(text);
  if (!records)
    return 0;
  (void)braid::view::toHtml(braid::view::recordedPage(*records));
  return 0;
}
