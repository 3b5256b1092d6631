//===- tests/fuzz/fuzz_view.cpp - any text as the record of a failed rank ---------------------===//

#include "api/view/recorded.h"

#include <cstdlib>

/// Every record that is accepted gives a page.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size), name = "record";
  const braid::Result<braid::FlightRecord> record = braid::FlightRecord::decode(text);
  if (!record)
    return 0;
  const braid::Result<braid::view::Page> page = braid::view::recordedPage(*record, name);
  if (!page)
    std::abort();
  (void)braid::view::toHtml(*page);
  return 0;
}
