//===- tests/fuzz/fuzz_flight_record.cpp - any text, in the place of a flight record ----------===//

#include "runtime/job/explain.h"

#include <cstdlib>

namespace {

/// Printed text moves no cursor and changes no colour.
void checkPrintable(const std::string &text) {
  for (unsigned char c : text)
    if ((c < 0x20 && c != '\n') || c == 0x7f)
      std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  braid::Result<braid::FlightRecord> record = braid::FlightRecord::decode(text);
  if (!record) {
    checkPrintable(record.status().message());
    return 0;
  }
  // An accepted record is written as it was read, and can be read again.
  const std::string encoded = record->encode();
  braid::Result<braid::FlightRecord> again = braid::FlightRecord::decode(encoded);
  if (!again || again->encode() != encoded)
    std::abort();
  // Beside a rank that is a little further.
  braid::FlightRecord other = *record;
  other.rank = record->rank == 0 ? record->ranks - 1 : record->rank - 1;
  other.completed = other.completed / 2 + 1;
  const auto sorted = braid::sortRecords({*record, other}, {"record", "other"});
  checkPrintable(sorted ? braid::explainRecords(*sorted) : sorted.status().message());
  checkPrintable(braid::explainRecords(*record));
  return 0;
}
