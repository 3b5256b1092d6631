//===- tests/fuzz/fuzz_view.cpp - any text as a trace, or as the record of a failed rank ------===//

#include "api/view/recorded.h"
#include "api/view/trace_text.h"

#include <cstdlib>

/// Every record that is accepted gives a page, and a trace that is refused says why.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  const braid::Result<braid::view::TraceText> trace = braid::view::parseTrace("trace", text);
  if (!trace && trace.status().message().empty())
    std::abort();
  const braid::Result<braid::FlightRecord> record = braid::FlightRecord::decode(text);
  if (!record)
    return 0;
  (void)braid::view::toHtml(braid::view::recordedPage(*record));
  return 0;
}
