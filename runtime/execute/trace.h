//===- runtime/execute/trace.h - traces for Chrome's and Perfetto's viewers -------------------===//
#pragma once

#include "runtime/execute/device.h"

namespace llvm {
class raw_ostream;
}

namespace braid {

/// One rank's part of a trace.
struct RankTrace {
  const Plan *plan;
  std::vector<Span> spans;
};

/// Writes Chrome's JSON trace format: one process per rank, one track per stream, one slice per
/// command (named after its kind, with node, place, trip, run, command and bytes as arguments), and
/// one arrow per transfer, from the sender's command to the receiver's. Times are microseconds
/// since the first span began. `otherData` stores the program text. Deterministic for equal spans.
void writeTrace(llvm::ArrayRef<RankTrace> ranks, llvm::raw_ostream &os);

} // namespace braid
