//===- tests/support/random_program.h - random programs ---------------------------------------===//
//
// Generates programs like those of a user who knows the rules but sometimes violates one. They
// contain 2 to 4 ranks, up to 3 streams besides the caller's, buffers with one block per rank,
// local work, sums, contractions of two axes, exchanges with get and put, early and late waits,
// loops, branches, groups, and scratch memory. Every program can be parsed, verified and
// specialized, but need not be safe.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <string>

namespace braid::test {

/// Optional features of random programs.
struct ProgramKinds {
  /// A mesh of several hosts.
  bool hosts = false;
};

/// Returns a text that depends only on the arguments, on any machine.
std::string randomProgram(uint64_t seed, const ProgramKinds &kinds = {});

} // namespace braid::test
