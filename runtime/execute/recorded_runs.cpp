//===- runtime/execute/recorded_runs.cpp - runs at recurring addresses ------------------------===//

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

void RecordedRuns::forget(const Seen &seen) {
  if (seen.recording)
    prepared_->forget(*seen.recording);
  seen_.erase(seen_.begin() + (&seen - seen_.data()));
}

void RecordedRuns::remember(Seen seen) {
  if (seen_.size() == kMost)
    forget(*std::min_element(seen_.begin(), seen_.end(), [](const Seen &left, const Seen &right) {
      return left.lastRun < right.lastRun;
    }));
  seen_.push_back(std::move(seen));
}

Status RecordedRuns::run(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs,
                         llvm::function_ref<Status()> check) {
  ++runs_;
  const std::optional<size_t> allocations =
      prepared_->canRecord() ? prepared_->allocationsOf(inputs, outputs) : std::nullopt;
  if (!allocations) {
    BRAID_TRY(check());
    prepared_->run(inputs, outputs);
    return Status::ok();
  }
  const size_t hash = hashOf(inputs, outputs);
  Seen *seen = find(hash, inputs, outputs);
  if (seen && seen->allocations != *allocations) {
    forget(*seen);
    seen = nullptr;
  }
  if (!seen) {
    BRAID_TRY(check());
    prepared_->run(inputs, outputs);
    remember({hash, inputs.vec(), outputs.vec(), *allocations, std::nullopt, runs_});
    return Status::ok();
  }
  seen->lastRun = runs_;
  if (!seen->recording)
    seen->recording = BRAID_TRY(prepared_->record(inputs, outputs));
  prepared_->replay(*seen->recording);
  return Status::ok();
}

} // namespace braid
