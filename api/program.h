//===- api/program.h - from a text to the program that every rank runs ------------------------===//
#pragma once

#include "api/status.h"
#include "api/tensor.h"

#include <memory>
#include <optional>
#include <utility>

namespace braid {

struct ProgramState;

/// A user's choices about lowering a fusion, in the words of the command line. A program is not
/// lowered: for it, each of these choices is BadInput.
struct LoweringOptions {
  /// Which fusion or program of the text; may be left out where there is only one.
  std::optional<std::string> entry = {};
  /// The mesh's size. Sets the parameter that sizes a fusion's mesh.
  std::optional<int64_t> ranks = {};
  /// Values for a fusion's parameters, by name.
  std::vector<std::pair<std::string, int64_t>> parameters = {};
  /// "pairwise;chunks=2;protocol=put;copies=kernel", or for each stage "H=ring,Y=bulk". Of
  /// Job::compileText() also "auto", or "auto;chunks=2" with what is not to be varied.
  std::string schedule = {};
  /// Seconds that trials of `auto` may take for a shape that this machine has not measured. 0: it
  /// takes what was measured here for the nearest sizes, or else a default for the sizes.
  double autoSeconds = 2;
  /// Results depend on the inputs alone, for so many ranks, a kind of device and a library.
  bool reproducible = false;
};

/// Limits of the proof.
struct CheckLimits {
  /// Hardware queues that the streams of a rank share; 0: any number with which it is safe will do.
  uint32_t queues = 0;
  /// Runs that follow one another.
  uint32_t runs = 3;
};

/// A verified program for all ranks. Cheap to copy; never changes.
class CompiledProgram {
public:
  int64_t ranks() const;
  const std::string &name() const;
  /// As `braid compile` prints it: the fusion, if there is one, and the host program.
  std::string str() const;
  /// The program's inputs and outputs on each rank, in order.
  std::span<const TensorSpec> inputs() const;
  std::span<const TensorSpec> outputs() const;
  /// The choices of lowering and their origins, as `braid run --explain` prints them: a line for
  /// each knob, and a line with the reason for each stage that is not overlapped.
  std::string explain() const;
  /// The Plan of one rank, as `braid compile --emit plan` prints it.
  Result<std::string> plan(int64_t rank) const;
  /// In the words of LoweringOptions::schedule; "" for a program that was not lowered.
  std::string schedule() const;
  /// The schedule that ranks chose by measuring, and why, in one line; empty: it was named.
  const std::string &choice() const;
  /// The trials that led to it, as `braid run --explain` prints them; in the process of rank 0.
  const std::string &trials() const;

  /// Ok if no order in which the ranks' streams may run has a race or a deadlock, and, where there
  /// is a fusion, every order gives its result. Rejected with the counterexample. Blocks; takes
  /// time and memory that grow with the program and the ranks. `report`, if given, gets what was
  /// proved, as `braid check` prints it.
  Status check(const CheckLimits &limits = {}, std::string *report = nullptr) const;

private:
  friend Result<CompiledProgram> compileText(const std::string &, const std::string &,
                                             const LoweringOptions &);
  friend class Job;
  friend class Session;
  explicit CompiledProgram(std::shared_ptr<const ProgramState> state) : state_(std::move(state)) {}
  std::shared_ptr<const ProgramState> state_;
};

/// Lowers the fusion that `text` holds, or takes its program. `name` is what messages call it:
/// BadInput has the place, `name:line:col`, of each mistake.
Result<CompiledProgram> compileText(const std::string &name, const std::string &text,
                                    const LoweringOptions &options = {});
/// The same for a file.
Result<CompiledProgram> compileFile(const std::string &path, const LoweringOptions &options = {});

} // namespace braid
