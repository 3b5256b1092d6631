//===- runtime/check/writers.h - finds the commands that wrote given bytes --------------------===//
#pragma once

#include "runtime/check/access.h"

namespace braid::checker {

enum class GemmOperand : uint8_t { A, B };

/// Returns the place that an event writes, if it overlaps `place`.
std::optional<Place> writtenBy(const History &history, const Event &event, const Place &place);

/// Traces the first byte of `place` back to the caller's inputs. Returns the command that last
/// wrote it, the command that wrote the byte from which it was copied or computed, and so on: at
/// most `most` commands, each with the places that it writes and reads. The list ends with the
/// writers of a sum's parts, or with any other command that has several operands. `operand` selects
/// the operand of the first GEMM to follow. `done` lists the executed events in order; `history`
/// must follow every rank. Returns an empty list if no command wrote the byte.
std::vector<CheckedEvent> findWriters(const History &history, llvm::ArrayRef<EventId> done,
                                      Place place, GemmOperand operand, size_t most);

} // namespace braid::checker
