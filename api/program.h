//===- api/program.h - compiles a text for all ranks ------------------------------------------===//
#pragma once

#include "api/status.h"
#include "api/tensor.h"

#include <memory>
#include <optional>
#include <utility>

namespace braid {

struct ProgramState;

/// Options of lowering a fusion, in the syntax of the command line. For a text with a program,
/// which is not lowered, setting parameters or a schedule is BadInput.
struct LoweringOptions {
  /// The fusion or program of the text; may be omitted if there is only one.
  std::optional<std::string> entry = {};
  /// The mesh size. Sets the parameter that determines the size of a fusion's mesh.
  std::optional<int64_t> ranks = {};
  /// Values for a fusion's parameters, by name.
  std::vector<std::pair<std::string, int64_t>> parameters = {};
  /// "pairwise;chunks=2;protocol=put;copies=kernel", or for each stage "H=ring,Y=bulk". For
  /// Job::compileText() also "auto", or "auto;chunks=2" with fields that must not vary.
  std::string schedule = {};
  /// Seconds that trials of `auto` may take for a shape that this machine has not measured. 0 uses
  /// the result for the nearest measured sizes, or else a default for the sizes.
  double autoSeconds = 2;
  /// Makes results depend only on inputs, number of ranks, kind of device and library.
  bool reproducible = false;
};

/// Limits of the proof.
struct CheckLimits {
  /// Hardware queues that the streams of a rank share. 0 accepts any number that is safe.
  uint32_t queues = 0;
  /// Number of consecutive runs.
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
  /// Returns the choices of lowering and their origins, as `braid run --explain` prints them: a
  /// line for each knob, and a line with the reason for each stage that is not overlapped.
  std::string explain() const;
  /// Returns the Plan of one rank, as `braid compile --emit plan` prints it.
  Result<std::string> plan(int64_t rank) const;
  /// Returns a LoweringOptions::schedule; "" for a program that was not lowered.
  std::string schedule() const;
  /// Returns one line with the schedule that ranks chose by measuring, and why; empty without
  /// choice.
  const std::string &choice() const;
  /// Returns the trials of that choice, as `braid run --explain` prints them; on rank 0 only.
  const std::string &trials() const;

  /// Returns Ok if no order in which the ranks' streams may execute has a race or a deadlock, and,
  /// for a fusion, every order computes its result. Otherwise fails with Rejected and the
  /// counterexample. Blocks; time and memory grow with the program and the number of ranks.
  /// `report`, if not null, receives what was proved, as `braid check` prints it.
  Status check(const CheckLimits &limits = {}, std::string *report = nullptr) const;

private:
  friend Result<CompiledProgram> compileText(const std::string &, const std::string &,
                                             const LoweringOptions &);
  friend class Job;
  friend class Session;
  explicit CompiledProgram(std::shared_ptr<const ProgramState> state) : state_(std::move(state)) {}
  std::shared_ptr<const ProgramState> state_;
};

/// Compiles `text`: lowers its fusion, or uses its program. `name` is used in messages: BadInput
/// has the place of each mistake, `name:line:col`.
Result<CompiledProgram> compileText(const std::string &name, const std::string &text,
                                    const LoweringOptions &options = {});
/// As compileText(), for a file.
Result<CompiledProgram> compileFile(const std::string &path, const LoweringOptions &options = {});

} // namespace braid
