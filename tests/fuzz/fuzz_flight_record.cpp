//===- tests/fuzz/fuzz_flight_record.cpp - any text as flight records -------------------------===//

#include "runtime/job/explain.h"

#include <cstdlib>

namespace {

/// Printed text must not move the cursor or change colours.
void checkPrintable(const std::string &text) {
  for (unsigned char c : text)
    if ((c < 0x20 && c != '\n') || c == 0x7f)
      std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  const braid::Result<braid::FlightRecords> records = braid::FlightRecords::decode(text);
  if (!records) {
    checkPrintable(records.status().message());
    return 0;
  }
  // Accepted records must survive being written and read again.
  const std::string encoded = records->encode();
  const braid::Result<braid::FlightRecords> again = braid::FlightRecords::decode(encoded);
  if (!again || again->encode() != encoded)
    std::abort();
  checkPrintable(braid::explainRecords(*records));
  return 0;
}
