//===- api/bench/bench_results.h - what a bench measured, and what follows from it ------------===//
//
// A row was timed in rounds, in turns with all others of its shape. Its time is the median of its
// rounds' medians: a disturbance of one round, on whichever row it falls, moves no result.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/bench/operation.h"

#include <nlohmann/json.hpp>

#include <vector>

namespace braid {

struct Spread {
  double median = 0, low = 0, high = 0; ///< low and high: the 10th and 90th of a hundred
};
/// All zero if there are no samples.
Spread spreadOf(std::vector<double> samples);

/// `auto`, with whatever is given.
bool isAutoRow(llvm::StringRef name);
/// Timed by PyTorch, rather than by Braid: its name begins with `torch/`.
bool isTorchRow(llvm::StringRef name);

/// One line of the table.
struct BenchRow {
  BenchShape shape;
  std::string name;
  bool isGraphed = false;                       ///< as asked for; says nothing of `auto`
  std::vector<std::vector<double>> rounds = {}; ///< microseconds of each run
  std::string failure = {};                     ///< empty: it was timed
  std::string date = {};                        ///< UTC, when its batch began
  std::string choice = {};                      ///< of `auto`: what it was
  RowKind kind = RowKind::Overlapped;           ///< as its operation says
  std::vector<double> bursts = {};              ///< microseconds of a run in each; may be empty

  /// Whether runs were replays of a graph.
  bool isIssuedAsGraph() const;
  bool isTimed() const { return failure.empty() && !rounds.empty(); }
  bool doesAllWork() const { return kind == RowKind::Sequential || kind == RowKind::Overlapped; }
  /// Microseconds; 0 if it was not timed.
  double time() const;
  /// Of all runs of all rounds.
  std::vector<double> samples() const;
  Spread spread() const { return spreadOf(samples()); }
  /// Microseconds of a run in a burst: the median of all bursts of all rounds. Empty: there were
  /// none.
  std::optional<double> burstTime() const;
  /// The medians of the rounds.
  std::vector<double> medians() const;
  bool isSameRow(const BenchRow &other) const {
    return shape == other.shape && name == other.name && isGraphed == other.isGraphed;
  }
};

/// The rows of PyTorch in the order of their turns, once for each of `graphChoices`.
std::vector<BenchRow> torchRows(const Operation &operation, const BenchShape &shape,
                                const std::vector<bool> &graphChoices);

/// What the rows of one shape say together. Microseconds; 0: no row says so. Rows that do all the
/// work are compared by their bursts, as `auto` compares its candidates, if all of them have some;
/// else by their single runs.
struct ShapeSummary {
  double gemm = 0;                     ///< the fastest GEMM alone
  double transfers = 0;                ///< the fastest transfers alone
  double sequential = 0;               ///< the fastest of one after the other
  const BenchRow *best = nullptr;      ///< the fastest that does all the work
  const BenchRow *automatic = nullptr; ///< the faster of the rows `auto`
  const BenchRow *ours = nullptr;      ///< the fastest of ours that does all the work
  const BenchRow *rival = nullptr;     ///< the fastest of a rival's that does all the work
  bool isByBursts = false;             ///< how these four were found, and verdicts are

  /// `rows` outlive the summary.
  static ShapeSummary of(llvm::ArrayRef<const BenchRow *> rows);

  /// What a row that does all the work is compared by.
  double judgedTime(const BenchRow &row) const {
    return isByBursts ? row.burstTime().value_or(0) : row.time();
  }
  /// The larger of these two. Both were measured, so a way to do the work can be faster.
  double limit() const { return gemm > 0 && transfers > 0 ? std::max(gemm, transfers) : 0; }
  // Empty if a row that it takes is missing.
  /// The limit over the time, of a row that does all the work, or both parts at once.
  std::optional<double> efficiency(const BenchRow &row) const;
  std::optional<double> speedUp(const BenchRow &row) const; ///< over sequential
  /// Of the time that sequential takes longer than the GEMM, the share that is saved.
  std::optional<double> hiddenShare(const BenchRow &row) const;
  /// `auto` is no slower than the best by more than 3 % or 3 microseconds, whichever is more.
  bool isAutoClose() const;
  /// One line: the best row, and how far `auto` is from it. Empty if no row does all the work.
  std::string verdict() const;
  /// One line: the fastest of ours beside the rival's. Empty if one of them is missing. Ours is
  /// slower beyond the spread if its fastest round, or burst, is slower than the rival's slowest.
  std::string rivalVerdict() const;

private:
  void takeFaster(const BenchRow *&fastest, const BenchRow &row) const;
  std::vector<double> judgedParts(const BenchRow &row) const;
};

/// The rows of one shape out of many, in order.
std::vector<const BenchRow *> rowsOfShape(llvm::ArrayRef<BenchRow> rows, const BenchShape &shape);

nlohmann::json toJson(const BenchRow &row);
/// BadInput says what was expected and what came.
Result<BenchRow> benchRowFrom(const nlohmann::json &json, const Operation &operation);

struct ResultsFile {
  nlohmann::json json; ///< all of it
  std::vector<BenchRow> rows;
};
/// A results file, which may be anybody's. `question` are its top-level keys that say what was
/// measured: BadInput names the first that the file answers differently.
Result<ResultsFile> readResultsFile(const std::string &text, const nlohmann::json &question,
                                    const Operation &operation);

} // namespace braid
