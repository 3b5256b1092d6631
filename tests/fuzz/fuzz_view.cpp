//===- tests/fuzz/fuzz_view.cpp - any text, in the place of a trace or of flight records ------===//

#include "api/view/flight.h"
#include "api/view/trace_file.h"

#include <cstdlib>

/// Flight records that are accepted give a page; everything else says why not.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  if (braid::Result<braid::FlightRecord> record = braid::FlightRecord::decode(text)) {
    const std::string name = "record";
    braid::Result<braid::view::Page> page = braid::view::flightPage(*record, name);
    if (!page)
      std::abort();
    (void)braid::view::toHtml(*page);
  }
  const braid::Result<braid::view::TraceText> trace = braid::view::parseTrace("trace", text);
  if (!trace && trace.status().message().empty())
    std::abort();
  return 0;
}
