//===- api/ranks/check_tensors.h - checks a caller's tensors against a program ----------------===//
#pragma once

#include "api/session.h"
#include "runtime/execute/backend.h"

namespace braid {

/// Checks the number, element types, shapes, alignment and memory of the tensors of all ranks in
/// this process, and that no output overlaps any other tensor. If a check fails, returns BadInput
/// with a message that names the tensor, the expected and actual values, and, if there are several
/// ranks, the rank.
Status checkTensors(const CompiledProgram &program, std::span<const RankTensors> ranks,
                    Cluster &cluster);

/// Checks the alignment and the memory of a rank's tensors. `addresses` lists inputs first.
Status checkAddresses(const CompiledProgram &program, std::span<void *const> addresses,
                      Device &device);

} // namespace braid
