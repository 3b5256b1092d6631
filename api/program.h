//===- api/program.h - compiles a text for all ranks ------------------------------------------===//
#pragma once

#include "api/status.h"
#include "api/tensor.h"

#include <memory>
#include <optional>
#include <utility>

namespace braid {

struct ProgramState;

/// Options for lowering a fusion, in the syntax of the command line. Programs are not lowered, so
/// setting parameters or a schedule for a program fails with BadInput.
struct LoweringOptions {
  /// The fusion or program to compile. May be empty if the text contains only one.
  std::optional<std::string> entry = {};
  /// The mesh size. For a fusion, sets the parameter that determines the mesh size.
  std::optional<int64_t> ranks = {};
  /// Values for a fusion's parameters, by name.
  std::vector<std::pair<std::string, int64_t>> parameters = {};
  /// "pairwise;chunks=2;protocol=put;copies=kernel", or "H=ring,Y=bulk" for individual stages.
  /// Job::compileText() also accepts "auto" and, with fixed knobs, "auto;chunks=2".
  std::string schedule = {};
  /// Time budget in seconds for trials if the schedule is `auto` and the shape was not yet measured
  /// on this machine. If 0, uses the choice for similar sizes, or else a default.
  double autoSeconds = 2;
  /// If true, results depend only on the inputs, number of ranks, GPU model and library version.
  bool reproducible = false;
};

/// The configurations that CompiledProgram::check() covers.
struct CheckLimits {
  /// Number of hardware queues that a rank's streams share. If 0, finds the smallest safe number.
  uint32_t queues = 0;
  /// Number of consecutive runs to check.
  uint32_t runs = 3;
};

/// A verified program for all ranks. Immutable and cheap to copy.
class CompiledProgram {
public:
  int64_t ranks() const;
  const std::string &name() const;
  /// Returns the text that `braid compile` prints: the fusion, if any, and the host program.
  std::string str() const;
  /// The program's inputs and outputs on each rank, in order.
  std::span<const TensorSpec> inputs() const;
  std::span<const TensorSpec> outputs() const;
  /// Returns the lowering decisions and their origins, as `braid run --explain` prints them: one
  /// line per knob, and one line that lists the stages that are not overlapped and the reasons.
  std::string explain() const;
  /// Returns the Plan of `rank`, as `braid compile --emit plan` prints it.
  Result<std::string> plan(int64_t rank) const;
  /// Returns the schedule, as in LoweringOptions::schedule, or "" if the program was not lowered.
  std::string schedule() const;
  /// Returns one line with the schedule that the ranks chose by measurement and the reason, or ""
  /// if the ranks did not choose the schedule.
  const std::string &choice() const;
  /// Returns the trials for choice(), as `braid run --explain` prints them; "" except on rank 0.
  const std::string &trials() const;

  /// Returns Ok if no possible execution order of the ranks' streams has a race or a deadlock, and,
  /// if the program implements a fusion, every order computes the fusion's result. Otherwise, fails
  /// with Rejected and a counterexample. Blocks; time and memory grow with the program size and the
  /// number of ranks. If `report` is not null, stores the summary that `braid check` prints.
  Status check(const CheckLimits &limits = {}, std::string *report = nullptr) const;

private:
  friend Result<CompiledProgram> compileText(const std::string &, const std::string &,
                                             const LoweringOptions &);
  friend class Job;
  friend class Session;
  explicit CompiledProgram(std::shared_ptr<const ProgramState> state) : state_(std::move(state)) {}
  std::shared_ptr<const ProgramState> state_;
};

/// Compiles `text`: lowers its fusion, or uses its program as is. If the text is invalid, fails
/// with BadInput and reports each error with its location, `name:line:col`.
Result<CompiledProgram> compileText(const std::string &name, const std::string &text,
                                    const LoweringOptions &options = {});
/// Like compileText(), but reads the text from a file.
Result<CompiledProgram> compileFile(const std::string &path, const LoweringOptions &options = {});

} // namespace braid
