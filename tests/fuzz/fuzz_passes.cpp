//===- tests/fuzz/fuzz_passes.cpp - any text as a `--passes` list -----------------------------===//

#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  braid::Diagnostics diags("--passes", std::string(reinterpret_cast<const char *>(data), size));
  std::vector<braid::PassSpec> passes = braid::parsePassList(diags);
  if (diags.hasErrors())
    return 0;
  std::string text;
  for (const braid::PassSpec &pass : passes) {
    text += (text.empty() ? "" : ",") + pass.name + "{";
    for (const braid::PassSpec::Option &option : pass.options)
      text += " " + option.name + "=" + option.value;
    text += "}";
  }
  braid::Diagnostics again("again", text);
  braid::fuzz::require(braid::parsePassList(again).size() == passes.size() && !again.hasErrors(),
                       "a list that was read does not read again", text);
  return 0;
}
