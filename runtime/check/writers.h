//===- runtime/check/writers.h - finds the commands that wrote given bytes --------------------===//
#pragma once

#include "runtime/check/access.h"

namespace braid::checker {

enum class GemmOperand : uint8_t { A, B };

/// Returns the place that an event writes, if it overlaps `place`.
std::optional<Place> writtenBy(const History &history, const Event &event, const Place &place);

/// Traces the first byte of `place` back to the caller's inputs. Returns the command that last
/// wrote it, the command that wrote the byte from which it was copied or computed, and so on: at
/// most `most` commands, each with the places that it writes and reads. The trace ends at the
/// writers of a sum's parts, a GEMM with an addend, or a binary pointwise operation. `operand` is
/// the operand to follow at the first GEMM; A is followed at later GEMMs. `done` lists the executed
/// events in order; `history` must follow every rank. Returns an empty list if there is no writer.
std::vector<CheckedEvent> findWriters(const History &history, llvm::ArrayRef<EventId> done,
                                      Place place, GemmOperand operand, size_t most);

} // namespace braid::checker
