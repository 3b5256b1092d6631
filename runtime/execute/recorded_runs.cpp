//===- runtime/execute/recorded_runs.cpp - runs at addresses that come back -------------------===//

#include "runtime/execute/recorded_runs.h"

#include "ir/failure.h"

#include "llvm/ADT/Hashing.h"

#include <algorithm>

namespace braid {

static size_t hashOf(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs) {
  return llvm::hash_combine(llvm::hash_combine_range(inputs.begin(), inputs.end()),
                            llvm::hash_combine_range(outputs.begin(), outputs.end()));
}

RecordedRuns::Seen *RecordedRuns::find(size_t hash, llvm::ArrayRef<const void *> inputs,
                                       llvm::ArrayRef<void *> outputs) {
  for (Seen &each : seen_)
    if (each.hash == hash && outputs.equals(each.outputs) && inputs.equals(each.inputs))
      return &each;
  return nullptr;
}

void RecordedRuns::remember(Seen seen) {
  if (seen_.size() == kMost) {
    const auto oldest =
        std::min_element(seen_.begin(), seen_.end(), [](const Seen &left, const Seen &right) {
          return left.lastRun < right.lastRun;
        });
    if (oldest->recording)
      prepared_->forget(*oldest->recording);
    seen_.erase(oldest);
  }
  seen_.push_back(std::move(seen));
}

Status RecordedRuns::run(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs,
                         llvm::function_ref<Status()> check) {
  ++runs_;
  const size_t hash = hashOf(inputs, outputs);
  Seen *seen = prepared_->canRecord() ? find(hash, inputs, outputs) : nullptr;
  if (!seen) {
    BRAID_TRY(check());
    prepared_->run(inputs, outputs);
    if (prepared_->canRecord())
      remember({hash, inputs.vec(), outputs.vec(), {}, runs_});
    return Status::ok();
  }
  seen->lastRun = runs_;
  if (!seen->recording)
    seen->recording = BRAID_TRY(prepared_->record(inputs, outputs));
  prepared_->replay(*seen->recording);
  return Status::ok();
}

} // namespace braid
