//===- runtime/execute/recorded_runs.h - runs at addresses that come back ---------------------===//
//
// A caller with an allocator of its own brings the same addresses again and again. The first run at
// some addresses is issued command by command, the second is recorded as a graph, and from then on
// each is one launch. The allocator may free memory and get the same addresses back later. A graph
// that was recorded before is not launched then: the driver crashes on copies between allocations
// that are gone.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/executor.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

class RecordedRuns {
public:
  /// So many sets of addresses are remembered, more than a model has layers of a shape; the one
  /// that was not used for longest goes first.
  static constexpr size_t kMost = 256;

  /// `prepared` outlives this.
  explicit RecordedRuns(Prepared &prepared) : prepared_(&prepared) {}

  /// Issues one run, as Prepared::run() does; blocks where it records. `check` is asked first about
  /// addresses that are not remembered. An error is its own, or that of the recording; nothing was
  /// issued then.
  Status run(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs,
             llvm::function_ref<Status()> check);

private:
  struct Seen {
    size_t hash; ///< hash of the addresses
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    size_t allocations; ///< a hash of those that hold the tensors
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
