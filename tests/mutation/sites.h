//===- tests/mutation/sites.h - sites for mistakes in a program -------------------------------===//
#pragma once

#include "ir/program.h"

namespace braid::test {

/// A node and its block.
struct Site {
  Block *block;
  Op *op;
};

/// Returns all nodes in text order, outer nodes first.
std::vector<Site> sitesOf(Program &program);
template <class OpClass> std::vector<Site> sitesOf(Program &program) {
  std::vector<Site> sites = sitesOf(program);
  std::erase_if(sites, [](const Site &site) { return !llvm::isa<OpClass>(site.op); });
  return sites;
}

/// Returns the node's text in backticks.
std::string quoted(const Op &op);
/// Returns the next node of the block, or null.
Op *nodeBehind(Block &block, Op &op);
/// Returns the previous node of the block, or null.
Op *nodeBefore(Block &block, Op &op);
/// Moves `op` right after `target`, which must be in the same block.
void moveBehind(Block &block, Op &op, Op &target);

} // namespace braid::test
