//===- api/candidate.h - one way to run a fusion ----------------------------------------------===//
#pragma once

#include "api/compile.h"
#include "runtime/cost_model.h"

#include <array>

namespace braid {

struct Candidate {
  Schedule schedule = Schedule::Pairwise;
  Protocol protocol = Protocol::Get;
  int64_t chunks = 0; ///< in all; 0: one a block
  int64_t streams = 0, taper = 1;
  int64_t waveRows = 0; ///< as LoweringOptions has it
  Transfers transfers = Transfers::Each;
  TransferMeans means = {};
  Issuing issuing = Issuing::Eager;

  /// `options` with what this one says about lowering.
  CompileOptions applyTo(CompileOptions options) const;
  /// What predictions are wrong about alike: the schedule with its transfers, the protocol, and the
  /// means.
  std::array<std::string, 3> traits() const;
  /// "pairwise;protocol=get;chunks=8;streams=3;taper=2;issuing=graph"; also wave, transfers, copies
  /// and signals; these and taper only where they are not the default.
  std::string str() const;
  /// Reads what str() writes; BadInput names the part that is not so.
  static Result<Candidate> fromText(llvm::StringRef text);
};

} // namespace braid
