//===- tests/fuzz/fuzz_view.cpp - any text in the place of a trace -------------------------===//

#include "api/view/trace_text.h"

#include <cstdlib>

/// A trace that is refused says why.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  const braid::Result<braid::view::TraceText> trace = braid::view::parseTrace("trace", text);
  if (!trace && trace.status().message().empty())
    std::abort();
  return 0;
}
