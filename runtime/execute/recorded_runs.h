//===- runtime/execute/recorded_runs.h - runs at recurring addresses --------------------------===//
//
// Callers with a caching allocator reuse the same addresses. The first run with a set of addresses
// is issued command by command, the second is recorded as a graph, and each later run needs only a
// single launch. If the allocator frees memory and later obtains the same addresses again, the old
// graph is not launched, because the driver crashes on copies between freed allocations.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/executor.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

class RecordedRuns {
public:
  /// Maximum number of cached address sets, enough for all layers of one shape in a model. The
  /// least recently used set is evicted first.
  static constexpr size_t kMost = 256;

  /// `prepared` must outlive this object.
  explicit RecordedRuns(Prepared &prepared) : prepared_(&prepared) {}

  /// Issues one run like Prepared::run(), but blocks while recording. Calls `check` first if the
  /// addresses are new. If `check` or the recording fails, returns the error and issues nothing.
  Status run(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs,
             llvm::function_ref<Status()> check);

private:
  struct Seen {
    size_t hash; ///< hash of the addresses
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    size_t allocations; ///< hash of the allocations that contain the tensors
    std::optional<uint32_t> recording;
    uint64_t lastRun = 0;
  };
  Seen *find(size_t hash, llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);
  void remember(Seen seen);
  void forget(const Seen &seen);

  Prepared *prepared_;
  std::vector<Seen> seen_;
  uint64_t runs_ = 0;
};

} // namespace braid
