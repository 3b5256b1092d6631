//===- runtime/tune/measurement_file.h - what was measured on a machine, as a file's text -----===//
//
//   braid measurements 1: NVIDIA H200, driver 13.0, cuBLASLt 13.1.0
//   GEMM bf16 1024 8192 8192<TAB>...
//   ...
//   end 5d1f02a3c4e6b789
//
// The number is the format's version, and what follows it names the machine and every library that
// the values hold for. Then comes a line for each entry, by key. The last line has a checksum of
// all before it, so that a file that was cut short or damaged is known as such.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"

#include <map>

namespace braid {

/// The text without tabs and line ends, which separate fields and lines.
std::string escaped(llvm::StringRef text);
/// Inverse of escaped(). For other input, the result does not escape to that input.
std::string unescaped(llvm::StringRef text);

struct MeasurementFile {
  std::string machine;
  std::map<std::string, std::string> entries; ///< values by key; any bytes

  std::string encode() const;
  /// BadInput, saying what is wrong with it, for any text but what encode() makes.
  static Result<MeasurementFile> decode(llvm::StringRef text);
};

} // namespace braid
