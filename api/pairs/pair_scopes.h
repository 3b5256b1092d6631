//===- api/pairs/pair_scopes.h - what a set of pairs has in common ----------------------------===//
#pragma once

#include "api/pairs/verdicts.h"

#include "llvm/ADT/ArrayRef.h"

#include <map>
#include <set>

namespace braid {

/// What was found out about an ordered pair, on one path or several.
struct PairFinding {
  const PairRow *row = nullptr;
  std::set<Path> paths;
  double figure = 0, expected = 0; ///< of the path that was added first
};

/// Findings of one kind, by pair.
class PairFindings {
public:
  /// Adds a path to what is known about a pair.
  void add(const PairRow &row, std::optional<Path> path, double figure = 0, double expected = 0);
  bool has(const PairRow &row) const { return find(row.source, row.destination); }
  /// Null if there is nothing about that pair.
  const PairFinding *find(int64_t source, int64_t destination) const;
  const std::map<std::pair<int64_t, int64_t>, PairFinding> &all() const { return findings_; }
  bool empty() const { return findings_.empty(); }

private:
  std::map<std::pair<int64_t, int64_t>, PairFinding> findings_;
};

/// A scope, and the findings that it stands for.
struct ScopedFindings {
  Verdict scope; ///< only the fields that say about whom; and paths, figure, expected
  std::vector<const PairFinding *> findings;
};

/// The fewest scopes that name all findings: `whole` if it is everybody in `universe`, the pairs
/// for which there could be findings; devices that have nearly all of their pairs among them, sent
/// or received or both; and of what is left, pairs, in both directions where both are there.
std::vector<ScopedFindings> scopesOf(const PairFindings &findings,
                                     llvm::ArrayRef<const PairRow *> universe, VerdictScope whole);

} // namespace braid
