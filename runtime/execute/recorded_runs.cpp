//===- runtime/execute/recorded_runs.cpp - runs at addresses that come back -------------------===//

#include "runtime/execute/recorded_runs.h"

#include "ir/failure.h"

#include <algorithm>

namespace braid {

RecordedRuns::Seen *RecordedRuns::find(llvm::ArrayRef<const void *> inputs,
                                       llvm::ArrayRef<void *> outputs) {
  for (Seen &each : seen_)
    if (outputs.equals(each.outputs) && inputs.equals(each.inputs))
      return &each;
  return nullptr;
}

void RecordedRuns::remember(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs) {
  if (seen_.size() == kMost) {
    const auto oldest =
        std::min_element(seen_.begin(), seen_.end(), [](const Seen &left, const Seen &right) {
          return left.lastRun < right.lastRun;
        });
    if (oldest->recording)
      prepared_->forget(*oldest->recording);
    seen_.erase(oldest);
  }
  seen_.push_back({inputs.vec(), outputs.vec(), {}, runs_});
}

Status RecordedRuns::run(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs,
                         llvm::function_ref<Status()> check) {
  ++runs_;
  Seen *seen = prepared_->canRecord() ? find(inputs, outputs) : nullptr;
  if (!seen) {
    BRAID_TRY(check());
    prepared_->run(inputs, outputs);
    if (prepared_->canRecord())
      remember(inputs, outputs);
    return Status::ok();
  }
  seen->lastRun = runs_;
  if (!seen->recording)
    seen->recording = BRAID_TRY(prepared_->record(inputs, outputs));
  prepared_->replay(*seen->recording);
  return Status::ok();
}

} // namespace braid
