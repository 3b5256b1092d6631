//===- lowering/stages/advice.h - suggested changes for nodes that lowering rejects -----------===//
#pragma once

#include "ir/fusion.h"

#include <map>
#include <string>
#include <vector>

namespace braid {

/// Finds changes to a fusion that make lowering accept its rejected nodes, by trying the changes on
/// a copy. The first alternative for each node stays applied to the copy, so that a user can apply
/// the first alternatives from all messages together.
class Adviser {
public:
  /// Requires a verified `fusion`.
  explicit Adviser(const Fusion &fusion);

  /// Returns at most two suggestions for a rejected node, the best first:
  ///
  ///   %Y : bf16[Stream{D}, M/D, N]         this type of %Y, in the line that defines it
  ///   %X : bf16[D, M/D, K] and %W : ...    both
  ///   %B for %Z                            another operand of the node
  ///   %S = input bf16[DIDx{D}, M/D, K]     this definition of %S
  ///
  /// Each alternative makes lowering accept this node without rejecting a previously accepted node.
  /// Returns an empty list if no alternative was found.
  std::vector<std::string> adviceFor(const FusionNode &node);

private:
  /// New text for some lines of the copy, by line number, and the wording of the message.
  struct Change {
    std::map<size_t, std::string> lines = {};
    std::string text = {};
    int cost = 0; ///< lower means closer to the user's text
    /// whether operand types, or the result type, change
    bool changesOperands = false, changesResult = false;
  };

  std::vector<Change> typesFor(const FusionNode &node, const Change &start) const;
  std::vector<Change> definitionsFor(const FusionNode &node) const;
  Change withoutReshards(const FusionNode &node) const;
  bool accepts(const Change &change, const std::string &result) const;
  void apply(const Change &change);
  std::vector<std::string> linesWith(const Change &change) const;
  /// Returns the number of the line that defines `tensor`.
  size_t lineOf(const FusionTensor &tensor) const;

  const Fusion &fusion_;
  std::vector<std::string> lines_; ///< the lines of the copy
  /// results of the copy's nodes that are still rejected
  std::vector<std::string> refused_;
  /// nodes no longer rejected, each with the change that fixed it
  std::map<std::string, std::string> solved_;
};

} // namespace braid
