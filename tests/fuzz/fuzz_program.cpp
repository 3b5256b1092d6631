//===- tests/fuzz/fuzz_program.cpp - fuzzes the parser and verifier of programs ---------------===//

#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  braid::fuzz::checkText(text);
  // Most mutations of a whole file are rejected in its header, so the header is fixed here.
  braid::fuzz::checkText("program @p mesh [0 .. 4) (%A: f32[4, 8]) -> (%C: f32[4, 8]) {\n" + text +
                         "\n}\n");
  return 0;
}
