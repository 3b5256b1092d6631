//===- runtime/check/writers.h - where the bytes of a memory come from ------------------------===//
#pragma once

#include "runtime/check/access.h"

namespace braid::checker {

/// The operand of a GEMM that is followed back.
enum class GemmOperand : uint8_t { A, B };

/// The place that an event writes, if it has bytes of `place`.
std::optional<Place> writtenBy(const History &history, const Event &event, const Place &place);

/// The command that last wrote the first byte of `place`, then the one that wrote the byte it was
/// copied or computed from, and so on, at most `most`: each with what it writes, and from where.
/// Goes back to the caller's inputs. After a sum follow the commands that wrote its parts, and no
/// others; another command with several operands ends the list. `operand` is that of the first
/// GEMM. `done` are the events so far, in the order in which they ran; ranks are followed one by
/// one. Empty if no command wrote the byte.
std::vector<CheckedEvent> findWriters(const History &history, llvm::ArrayRef<EventId> done,
                                      Place place, GemmOperand operand, size_t most);

/// The command of `run` that wrote last to the buffer of `place`, whatever bytes; or nothing.
std::optional<CheckedEvent> findNeighbour(const History &history, llvm::ArrayRef<EventId> done,
                                          const Place &place, uint32_t run);

} // namespace braid::checker
