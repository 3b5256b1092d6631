//===- tests/mutation/sites.h - where in a program a mistake can be made ----------------------===//
#pragma once

#include "ir/program.h"

namespace braid::test {

/// A node with the block it is in.
struct Site {
  Block *block;
  Op *op;
};

/// Every node, in text order, outer nodes first.
std::vector<Site> sitesOf(Program &program);
template <class OpClass> std::vector<Site> sitesOf(Program &program) {
  std::vector<Site> sites = sitesOf(program);
  std::erase_if(sites, [](const Site &site) { return !llvm::isa<OpClass>(site.op); });
  return sites;
}

/// The node's text between backticks.
std::string quoted(const Op &op);
/// The next node of the block, or null.
Op *nodeBehind(Block &block, Op &op);
/// The one before it, or null.
Op *nodeBefore(Block &block, Op &op);
/// Moves `op` to just behind `target`, which is in the same block.
void moveBehind(Block &block, Op &op, Op &target);

} // namespace braid::test
