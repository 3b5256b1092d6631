//===- tests/fuzz/fuzz_fusion.cpp - fuzzes the parser and verifier of fusions -----------------===//

#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  braid::fuzz::checkText(text);
  // Most mutations of a whole file are rejected in its header, so the header is fixed here.
  braid::fuzz::checkText("fusion @f(D = 2, M = 8) {\n  mesh [0 .. D)\n" + text + "\n}\n");
  return 0;
}
