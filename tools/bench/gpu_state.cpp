//===- tools/bench/gpu_state.cpp - clocks and power of the GPUs -------------------------------===//

#include "tools/bench/gpu_state.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace braid::tools {
namespace {

using Json = nlohmann::json;

constexpr const char *kCommand =
    "nvidia-smi --query-gpu=index,name,driver_version,clocks.sm,clocks.mem,power.draw,"
    "temperature.gpu --format=csv,noheader,nounits 2>/dev/null";
constexpr const char *kKeys[] = {"index",      "name",    "driver", "sm_mhz",
                                 "memory_mhz", "power_w", "celsius"};

/// A number where it is one; what a GPU does not tell is null.
Json valueOf(llvm::StringRef text) {
  double number = 0;
  if (!text.getAsDouble(number))
    return number;
  return text.empty() || text.front() == '[' ? Json() : Json(text.str());
}

Json stateOf(llvm::StringRef line) {
  llvm::SmallVector<llvm::StringRef> fields;
  line.split(fields, ',');
  if (fields.size() != std::size(kKeys))
    return Json();
  Json state;
  for (size_t i = 0; i < fields.size(); ++i)
    state[kKeys[i]] = llvm::StringRef(kKeys[i]) == "driver" ? Json(fields[i].trim().str())
                                                            : valueOf(fields[i].trim());
  return state;
}

} // namespace

GpuState::GpuState() : pipe_(popen(kCommand, "re")) {}

GpuState::~GpuState() {
  if (pipe_)
    pclose(pipe_);
}

Json GpuState::take() {
  Json states = Json::array();
  char line[1024];
  while (pipe_ && std::fgets(line, sizeof line, pipe_))
    if (Json state = stateOf(llvm::StringRef(line).trim()); !state.is_null())
      states.push_back(std::move(state));
  return states.empty() ? Json() : states;
}

} // namespace braid::tools
