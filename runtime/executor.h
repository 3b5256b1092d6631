//===- runtime/executor.h - binds a Plan to a device, and issues it ---------------------------===//
//
// prepare() does everything that allocates, exchanges, loads or can block; run() only issues the
// Plan's commands in order, at a few nanoseconds each.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/device.h"

namespace braid {

/// A Plan bound to addresses on one rank. Made by prepare(). Not thread-safe.
class Prepared {
public:
  /// Issues one run to stream 0 and the streams of the Plan, and returns. Runs follow one another
  /// on stream 0; any number may be in flight. `inputs` and `outputs` are device addresses, one
  /// for each parameter and result of the program in order; they may differ from run to run and
  /// must stay valid until the run is done.
  void run(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);
  /// Records one run at these addresses as a graph, in place of the one before; nothing runs.
  /// Blocks. Unsupported where the backend has no graphs.
  Status capture(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);
  /// Issues the recorded run, to the addresses of its capture: one launch. May be mixed with run().
  void replay();
  const Plan &plan() const { return *plan_; }
  /// How many runs have been issued, replays included.
  uint32_t epoch() const { return epoch_; }

private:
  friend class Binder;
  Prepared(const Plan &plan, Device &device) : plan_(&plan), device_(&device) {}

  /// An operand whose base is looked up at run time: bases_[base] + offset.
  struct Operand {
    uint32_t base = 0;
    int64_t offset = 0;
  };
  struct Bound {
    Operand dst, src;
    void *word = nullptr;
  };
  void issueAll(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);
  void issue(uint32_t index, const Command &command);
  void *at(Operand operand) const {
    return static_cast<char *>(bases_[operand.base]) + operand.offset;
  }
  void issueMatmul(uint32_t index, const Command &command);

  const Plan *plan_;
  Device *device_;
  uint32_t epoch_ = 0;
  std::optional<uint32_t> graph_;
  uint32_t firstEvent_ = 0;
  std::vector<void *> bases_; ///< one for each buffer of the Plan, then one for each rank
  std::vector<Bound> bound_;  ///< one for each command
  struct BoundMatmul {
    Operand a, b, c, bias;
  };
  std::vector<BoundMatmul> matmuls_;
};

/// Prepares `plan` on `device`. Collective: every rank of the mesh calls it with its own Plan of
/// the same program. Fingerprints are compared first, then every send is matched with its
/// receive; a difference is BadInput and says which ranks differ, and where. `plan` and `device`
/// outlive the result.
Result<std::unique_ptr<Prepared>> prepare(const Plan &plan, Device &device, Transport &transport);

} // namespace braid
