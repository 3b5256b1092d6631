//===- lowering/stages/unrolled_steps.cpp - unrolling the steps of a pipeline -----------------===//

#include "lowering/stages/unrolled_steps.h"

#include "lowering/emit.h"

namespace braid {
namespace {

/// Maximum number of transfers in an unrolled stage. A schedule with more transfers would be slow.
constexpr int64_t kMaxTransfers = 4096;

class Unroller : Emitter {
public:
  Unroller(LoweringState &state, Stage &stage, ForOp &loop)
      : Emitter(state), stage_(stage), loop_(loop) {
    builder_.insertBefore(body_, loop);
  }

  std::vector<UnrolledStep> run() {
    for (int64_t i = loop_.begin->value(); i < loop_.end->value(); ++i) {
      steps_.push_back({i, {}, nullptr});
      Mapping mapping;
      copyTrip(loop_, i, mapping, "");
      steps_.back().block = mapping.values.lookup(stage_.block);
    }
    return std::move(steps_);
  }

private:
  using Mapping = ProgramBuilder::Mapping;

  /// Unrolls an inner loop under the mapping `outer`. `suffix` distinguishes the values of
  /// different iterations.
  void unroll(const ForOp &loop, const Mapping &outer, const std::string &suffix) {
    const int64_t end = valueOf(loop.end, outer);
    for (int64_t i = valueOf(loop.begin, outer); i < end; ++i) {
      Mapping mapping = outer;
      copyTrip(loop, i, mapping, suffix);
    }
  }

  void copyTrip(const ForOp &loop, int64_t i, Mapping &mapping, const std::string &suffix) {
    mapping.scalars.emplace_back(loop.index, constant(i));
    const std::string name = suffix + "_" + std::to_string(i);
    for (const Op &op : loop.body)
      if (const auto *inner = llvm::dyn_cast<ForOp>(&op))
        unroll(*inner, mapping, name);
      else
        copy(op, mapping, name);
  }

  void copy(const Op &op, Mapping &mapping, const std::string &suffix) {
    Op *made = builder_.clone(op, mapping);
    if (Value *result = resultOf(*made))
      result->name = global(result->name + suffix);
    steps_.back().nodes.push_back(made);
  }

  int64_t valueOf(const Scalar *scalar, const Mapping &mapping) {
    for (const auto &[from, to] : mapping.scalars)
      scalar = scalars_.substitute(scalar, from, to);
    return scalar->value();
  }

  Stage &stage_;
  const ForOp &loop_;
  std::vector<UnrolledStep> steps_;
};

} // namespace

std::vector<UnrolledStep> unrollSteps(LoweringState &state, Stage &stage, ForOp &loop) {
  return Unroller(state, stage, loop).run();
}

bool checkUnrolledSize(const Stage &stage, Diagnostics &diags) {
  const int64_t shots = stage.isTwoShot() ? 2 : 1;
  const int64_t transfers = (stage.steps - 1 + stage.tailSplit - 1) * stage.chunks * 2 * shots;
  if (transfers <= kMaxTransfers)
    return true;
  return diags.error(stage.location())
         << "cannot unroll " << transfers << " sends and receives of %" << stage.name()
         << ": expected at most " << kMaxTransfers
         << "; use the pairwise schedule, which keeps them in a loop";
}

} // namespace braid
