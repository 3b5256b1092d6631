//===- tests/support/reductions.h - reductions written by hand --------------------------------===//
//
// Fusions that are contracted over devices, and programs that compute them, as texts. What the
// lines of a program are for is named, so that a test can make one mistake.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <string>

namespace braid::test::reductions {

struct Options {
  int64_t ranks = 3;
  std::string dtype = "f32";
  std::string partial = "f32"; ///< the type in which partial results travel
  bool hasBias = false;        ///< then it is a linear
};

/// Ranks push their partial results to those who own the rows, and each adds what it has got.
std::string scatterByPut(const Options &options);
/// The same, but what is pushed is computed where it arrives.
std::string scatterAtPeers(const Options &options);
/// The same as by put, but the owners fetch.
std::string scatterByGet(const Options &options);
/// The same as by put, in two uneven chunks on three streams; %C's rows are summed as they come.
std::string scatterInChunks(const Options &options);
/// Sums travel from rank to rank, and each adds its own.
std::string scatterAroundRing(const Options &options);
/// All ranks push their whole partial result to all, and everybody adds them.
std::string reduceToAll(const Options &options);
/// Rows of X are gathered and multiplied by columns; the product is contracted over devices.
std::string gatherAndScatter(const Options &options);

} // namespace braid::test::reductions
