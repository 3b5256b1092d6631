//===- tests/fuzz/fuzz_cost_model.cpp - fuzzes the decoder of cost models ---------------------===//

#include "runtime/simulate/cost_model.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  braid::Result<braid::CostModel> model = braid::CostModel::decode(text);
  if (!model)
    return 0;
  // A model must survive being written and read again.
  const std::string encoded = model->encode();
  braid::Result<braid::CostModel> again = braid::CostModel::decode(encoded);
  if (!again || again->encode() != encoded)
    std::abort();
  // A GEMM has a finite cost, whatever the table contains.
  for (int64_t m : {0, 1, 1000, 1 << 30})
    if (auto us = model->gemmUs({braid::DType::BF16, m, 8, 8, false, {}, {}, {}, {}}))
      if (!(*us >= 0 && *us < 1e40))
        std::abort();
  return 0;
}
