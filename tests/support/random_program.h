//===- tests/support/random_program.h - random programs of no particular shape ----------------===//
//
// Programs as somebody might write them who knows the rules and forgets one now and then: 2 to 4
// ranks, up to 3 streams beside the caller's, buffers of as many blocks as there are ranks, local
// work, sums, contractions of two axes, exchanges by get and put, waits late or early, loops,
// branches, groups, scratch memory.
// Every program can be parsed, verified and specialised; whether it is safe is for the checker to
// say.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>

namespace braid::test {

/// Further nodes that random programs may have.
struct ProgramKinds {
  /// A mesh of several hosts.
  bool hosts = false;
};

/// The same seed and kinds give the same text on every machine.
std::string randomProgram(uint64_t seed, const ProgramKinds &kinds = {});

} // namespace braid::test
