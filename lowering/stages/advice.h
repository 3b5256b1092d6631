//===- lowering/stages/advice.h - what to write in place of a node that cannot be lowered -----===//
#pragma once

#include "ir/fusion.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace braid {

/// Looks for changes to a fusion with which its refused nodes are lowered, by trying them on a
/// copy. What it has advised first for a node stays changed in the copy, so that all first
/// alternatives can be had together.
class Adviser {
public:
  /// `fusion` is verified.
  explicit Adviser(const Fusion &fusion);

  /// What to write for a node that is refused, the best alternative first, at most two:
  ///
  ///   %Y : bf16[Stream{D}, M/D, N]         this type of %Y, in the line that defines it
  ///   %X : bf16[D, M/D, K] and %W : ...    both
  ///   %B for %Z                            another operand of the node
  ///   %S = input bf16[DIDx{D}, M/D, K]     this definition of %S
  ///
  /// With each, this node is lowered, and no other one is refused that was not. Empty if nothing
  /// was found.
  std::vector<std::string> adviceFor(const FusionNode &node);

private:
  /// A new text for some lines of the copy, and how a message says it.
  struct Change {
    std::vector<std::string> lines;
    std::string text = {};
    int cost = 0; ///< the less, the nearer to what was written
    bool changesOperands = false, changesResult = false; ///< their types
  };

  std::vector<Change> typesFor(const FusionNode &node, const Change &start) const;
  std::vector<Change> definitionsFor(const FusionNode &node) const;
  Change withoutReshards(const FusionNode &node) const;
  bool accepts(const Change &change, const std::string &result) const;
  void apply(const Change &change);
  std::string &lineOf(std::vector<std::string> &lines, const std::string &tensor) const;

  const Fusion &fusion_;
  std::vector<std::string> lines_;            ///< of the copy
  std::vector<std::string> refused_;          ///< results of the nodes that still are, there
  std::map<std::string, std::string> solved_; ///< others that were, with the change that did it
};

} // namespace braid
