//===- ir/verify/verify.h - common parts of the verifier --------------------------------------===//
//
// Private to ir/. The rules are in verify_fusion.cpp; verify_program.cpp (names, scopes, scalars
// and types), verify_nodes.cpp (one rule set per node), verify_requests.cpp (each is waited for
// once) and verify_interface.cpp (a program and the fusion that it implements).
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/module.h"

#include "llvm/ADT/DenseMap.h"

namespace braid {

/// Returns `%x`, or "nothing" for a missing value.
std::string ref(const Value *value);
/// Returns `%x: bf16[8, 128]`.
std::string typed(const Value *value);

/// Reports names that could not be parsed again.
bool verifyName(llvm::StringRef what, llvm::StringRef name, Location location, Diagnostics &diags);
bool verifyMeshSize(int64_t ranks, Location location, Diagnostics &diags);
/// Requires a valid `ranks`.
bool verifyRanksPerHost(int64_t ranksPerHost, int64_t ranks, Location location, Diagnostics &diags);

/// The state of the walk over a program.
struct ProgramContext {
  ProgramContext(const Program &p, Diagnostics &d) : program(p), diags(d) {}

  const Program &program;
  Diagnostics &diags;
  /// The blocks around the current node, outermost first, each with the node that owns it, or null
  /// for the body.
  struct Frame {
    const Block *block;
    const Op *owner;
  };
  std::vector<Frame> frames;
  int rankBranches = 0; ///< number of `if`s around the node that depend on `rank`
  llvm::DenseMap<const Value *, const Block *> allocated; ///< the block of each buffer
  llvm::DenseMap<const Value *, Location> shared;         ///< buffers named by share_mem_handles
  /// the place where buffers were deallocated
  llvm::DenseMap<const Value *, Location> deallocated;
};

/// Checks the rules of the node's kind. Its operands must be visible, and its scalars well formed.
void verifyNode(const Op &op, ProgramContext &context);
/// Checks that every request is waited for exactly once on every path.
void verifyRequests(const Program &program, Diagnostics &diags);
/// Checks that the mesh, parameters and results are those of the fusion that the program
/// implements.
void verifyInterface(const Program &program, const Module &module, Diagnostics &diags);

/// Returns true if some leaf of the scalar satisfies `leaf`.
bool anyLeaf(const Scalar *scalar, llvm::function_ref<bool(const Scalar *)> leaf);
bool dependsOnRank(const Scalar *scalar);

} // namespace braid
