//===- api/machine/nvml_report_json.h - what NVML says, from process to process ---------------===//
#pragma once

#include "api/machine/nvml.h"

#include "llvm/ADT/StringRef.h"

namespace braid {

/// A report, or why there is none. What is not known is left out.
std::string encodeNvml(const Result<NvmlReport> &report);
/// What was encoded; a failure comes back as Unsupported. BadInput for any other text.
Result<NvmlReport> decodeNvml(llvm::StringRef text);

} // namespace braid
