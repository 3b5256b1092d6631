//===- tests/fuzz/fuzz_measurement_file.cpp - fuzzes the decoder of measurement files ---------===//

#include "runtime/tune/measurement_file.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  braid::Result<braid::MeasurementFile> file = braid::MeasurementFile::decode(text);
  if (!file) {
    if (file.status().message().empty())
      std::abort();
    return 0;
  }
  // An accepted file can be written and read again.
  braid::Result<braid::MeasurementFile> again = braid::MeasurementFile::decode(file->encode());
  if (!again || again->machine != file->machine || again->entries != file->entries)
    std::abort();
  return 0;
}
