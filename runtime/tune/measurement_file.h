//===- runtime/tune/measurement_file.h - the text format of measurement files -----------------===//
//
//   {
//    "braid measurements": 2,
//    "machine": "NVIDIA H200, driver 13.0, cuBLASLt 13.1.0",
//    "entries": {
//     "GEMM bf16 1024x8192x8192": "...",
//     ...
//    }
//   }
//
// The number is the format version. The values are valid only for the given machine and library
// versions.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <map>

namespace braid {

struct MeasurementFile {
  std::string machine;
  std::map<std::string, std::string> entries; ///< values by key; UTF-8

  std::string encode() const;
  /// Returns BadInput, with the reason, if `text` is not in this format.
  static Result<MeasurementFile> decode(llvm::StringRef text);
};

} // namespace braid
