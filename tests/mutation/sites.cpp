//===- tests/mutation/sites.cpp - sites for mistakes in a program -----------------------------===//

#include "tests/mutation/sites.h"

#include "ir/module.h"

namespace braid::test {
namespace {

void collect(Block &block, std::vector<Site> &sites) {
  for (Op &op : block) {
    sites.push_back({&block, &op});
    forEachBlock(op, [&](Block &inner) { collect(inner, sites); });
  }
}

} // namespace

std::vector<Site> sitesOf(Program &program) {
  std::vector<Site> sites;
  collect(program.body(), sites);
  return sites;
}

std::string quoted(const Op &op) { return "`" + str(op) + "`"; }

Op *nodeBehind(Block &block, Op &op) {
  auto next = std::next(op.getIterator());
  return next == block.end() ? nullptr : &*next;
}

Op *nodeBefore(Block &block, Op &op) {
  return op.getIterator() == block.begin() ? nullptr : &*std::prev(op.getIterator());
}

void moveBehind(Block &block, Op &op, Op &target) {
  Op *owned = block.remove(op.getIterator());
  block.insertAfter(target.getIterator(), owned);
}

} // namespace braid::test
