//===- ir/verify/verify.h - code shared by the parts of the verifier --------------------------===//
//
// Private to ir/. The rules are in verify_fusion.cpp, verify_program.cpp (names, scopes, scalars
// and types), verify_nodes.cpp (one rule set per node), verify_requests.cpp (every request is
// waited for exactly once) and verify_interface.cpp (the signature of a program matches the fusion
// that it implements).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/module.h"

#include "llvm/ADT/DenseMap.h"

namespace braid {

/// Returns `%x`, or "nothing" if `value` is null.
std::string ref(const Value *value);
/// Returns text such as `%x: bf16[8, 128]`.
std::string typed(const Value *value);

bool verifyMeshSize(int64_t ranks, Location location, Diagnostics &diags);
/// Reports an error unless `ranksPerHost` divides `ranks`, which must be a valid mesh size.
bool verifyRanksPerHost(int64_t ranksPerHost, int64_t ranks, Location location, Diagnostics &diags);

/// State of the verifier during a walk over a program.
struct ProgramContext {
  ProgramContext(const Program &p, Diagnostics &d) : program(p), diags(d) {}

  const Program &program;
  Diagnostics &diags;
  /// The blocks that enclose the current node, outermost first, each with the node that owns it
  /// (null for the program's body).
  struct Frame {
    const Block *block;
    const Op *owner;
  };
  std::vector<Frame> frames;
  int rankBranches = 0; ///< number of enclosing `if`s that depend on `rank`
  llvm::DenseMap<const Value *, const Block *> allocated; ///< the block that allocates each buffer
  llvm::DenseMap<const Value *, Location> shared;         ///< buffers passed to share_mem_handles
  /// location at which each buffer was deallocated
  llvm::DenseMap<const Value *, Location> deallocated;
};

/// Checks the rules for the node's kind. The operands must be visible and the scalars well-formed.
void verifyNode(const Op &op, ProgramContext &context);
/// Checks that every request is waited for exactly once on every path.
void verifyRequests(const Program &program, Diagnostics &diags);
/// Checks that the mesh, parameters and results match those of the fusion that the program
/// implements.
void verifyInterface(const Program &program, const Module &module, Diagnostics &diags);

/// Returns true if any leaf of `scalar` satisfies the predicate `leaf`.
bool anyLeaf(const Scalar *scalar, llvm::function_ref<bool(const Scalar *)> leaf);
bool dependsOnRank(const Scalar *scalar);

} // namespace braid
