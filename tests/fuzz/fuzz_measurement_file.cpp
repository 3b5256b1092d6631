//===- tests/fuzz/fuzz_measurement_file.cpp - any text as a file of measurements --------------===//

#include "runtime/tune/gemm_choice.h"
#include "runtime/tune/measurement_file.h"

#include <cstdlib>

namespace {

/// An accepted text equals the text that would have been written.
void check(const std::string &text) {
  braid::Result<braid::MeasurementFile> file = braid::MeasurementFile::decode(text);
  if (file ? file->encode() != text : file.status().message().empty())
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  check(text);
  if (braid::Result<braid::GemmChoice> choice = braid::GemmChoice::decode(text))
    if (choice->encode() != text || !(choice->microseconds > 0))
      std::abort();
  // Every written text can be read.
  const size_t half = size / 2;
  braid::MeasurementFile file{text, {{text.substr(0, half), text.substr(half)}, {"", text}}};
  braid::Result<braid::MeasurementFile> again = braid::MeasurementFile::decode(file.encode());
  if (!again || again->machine != text || again->entries != file.entries)
    std::abort();
  return 0;
}
