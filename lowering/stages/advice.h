//===- lowering/stages/advice.h - what to write in place of a node that cannot be lowered -----===//
#pragma once

#include "ir/fusion.h"

#include <map>
#include <string>
#include <vector>

namespace braid {

/// Finds changes to a fusion that make lowering accept its refused nodes, by trying them on a copy.
/// The first alternative for each node stays applied to the copy, so a reader can follow the first
/// alternatives of all messages together.
class Adviser {
public:
  /// `fusion` is verified.
  explicit Adviser(const Fusion &fusion);

  /// Returns what to write for a refused node, the best alternative first, at most two:
  ///
  ///   %Y : bf16[Stream{D}, M/D, N]         this type of %Y, in the line that defines it
  ///   %X : bf16[D, M/D, K] and %W : ...    both
  ///   %B for %Z                            another operand of the node
  ///   %S = input bf16[DIDx{D}, M/D, K]     this definition of %S
  ///
  /// Each alternative makes lowering accept this node, and refuses no node that it accepted before.
  /// Empty if none was found.
  std::vector<std::string> adviceFor(const FusionNode &node);

private:
  /// New texts for lines of the copy, by their number, and how a message says it.
  struct Change {
    std::map<size_t, std::string> lines = {};
    std::string text = {};
    int cost = 0; ///< the less, the nearer to what was written
    bool changesOperands = false, changesResult = false; ///< their types
  };

  std::vector<Change> typesFor(const FusionNode &node, const Change &start) const;
  std::vector<Change> definitionsFor(const FusionNode &node) const;
  Change withoutReshards(const FusionNode &node) const;
  bool accepts(const Change &change, const std::string &result) const;
  void apply(const Change &change);
  std::vector<std::string> linesWith(const Change &change) const;
  /// The number of the line that defines a tensor.
  size_t lineOf(const FusionTensor &tensor) const;

  const Fusion &fusion_;
  std::vector<std::string> lines_;            ///< the lines of the copy
  std::vector<std::string> refused_;          ///< results of the nodes that still are, there
  std::map<std::string, std::string> solved_; ///< others that were, with the change that did it
};

} // namespace braid
