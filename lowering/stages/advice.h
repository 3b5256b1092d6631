//===- lowering/stages/advice.h - suggested changes for nodes that lowering rejects -----------===//
#pragma once

#include "ir/fusion.h"

#include <map>
#include <string>
#include <vector>

namespace braid {

/// Finds changes to a fusion that make lowering accept its rejected nodes, by trying them on a
/// copy. The first alternative for each node remains applied to the copy, so that a user can apply
/// the first alternatives from all messages together.
class Adviser {
public:
  /// `fusion` must be verified, and must outlive this object.
  explicit Adviser(const Fusion &fusion);

  /// Returns at most two suggestions for a rejected node, best first:
  ///
  ///   %Y : bf16[Stream{D}, M/D, N]         change the type in the line that defines %Y
  ///   %X : bf16[D, M/D, K] and %W : ...    change both types
  ///   %B for %Z                            use %B instead of %Z as an operand of the node
  ///   %S = input bf16[DIDx{D}, M/D, K]     replace the definition of %S
  ///
  /// Each suggestion makes lowering accept `node`, and all previously accepted nodes remain
  /// accepted. Returns an empty list if no suggestion was found.
  std::vector<std::string> adviceFor(const FusionNode &node);

private:
  /// Replacements for lines of the copy, by line number, and the text of the suggestion.
  struct Change {
    std::map<size_t, std::string> lines = {};
    std::string text = {};
    int cost = 0; ///< lower means closer to the user's text
    /// true if operand types, or the result type, change
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
  /// results of the nodes that are still rejected in the copy
  std::vector<std::string> refused_;
  /// nodes that were rejected at first, each with the change that fixed it
  std::map<std::string, std::string> solved_;
};

} // namespace braid
