//===- runtime/tune/measurement_file.h - the text of a file of measurements -------------------===//
//
//   braid measurements 1: NVIDIA H200, driver 13.0, cuBLASLt 13.1.0
//   GEMM bf16 1024 8192 8192<TAB>...
//   ...
//   end 5d1f02a3c4e6b789
//
// The number is the version of the format, followed by the machine and the libraries for which the
// values are valid. The entries follow, one per line, sorted by key. The last line contains a
// checksum of all text before it, which detects truncated or damaged files.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <map>

namespace braid {

/// Escapes tabs and newlines, which separate fields and lines.
std::string escaped(llvm::StringRef text);
/// Inverse of escaped(). If `text` is no result of escaped(), escaping the result yields another
/// text.
std::string unescaped(llvm::StringRef text);

struct MeasurementFile {
  std::string machine;
  std::map<std::string, std::string> entries; ///< values by key, of arbitrary bytes

  std::string encode() const;
  /// Returns BadInput, with the reason, unless encode() produces `text`.
  static Result<MeasurementFile> decode(llvm::StringRef text);
};

} // namespace braid
