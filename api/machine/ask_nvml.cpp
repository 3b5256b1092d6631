//===- api/machine/ask_nvml.cpp - asks NVML, which may never answer ---------------------------===//

#include "api/machine/ask_nvml.h"

#include "api/launch/ask_in_process.h"
#include "api/machine/nvml_report_json.h"
#include "ir/failure.h"

namespace braid {

Result<NvmlReport> askNvml(const Environment &environment, std::chrono::milliseconds patience) {
  const Result<std::string> text =
      askInProcess([&] { return encodeNvml(readNvml(environment)); }, patience);
  if (text)
    return decodeNvml(*text);
  if (text.status().code() == StatusCode::TimedOut)
    return timedOut("the driver does not answer NVML within {} ms: nvidia-smi would hang, too",
                    patience.count());
  return text.status().annotated("NVML");
}

} // namespace braid
