//===- tests/support/reductions.h - hand-written reductions -----------------------------------===//
//
// Texts of fusions whose contracted axis is split over devices, and of programs that compute these
// fusions. Names are descriptive, so that a test can edit a single line.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include <string>

namespace braid::test::reductions {

struct Options {
  int64_t ranks = 3;
  std::string dtype = "f32";
  std::string partial = "f32"; ///< type of partial results
  bool hasBias = false;        ///< if true, the GEMM is a linear
};

/// Ranks push partial results to the owners of the rows, which add them.
std::string scatterByPut(const Options &options);
/// Like scatterByPut(), but GEMMs store the result directly in the owner's memory.
std::string scatterAtPeers(const Options &options);
/// Like scatterByPut(), but owners pull partial results.
std::string scatterByGet(const Options &options);
/// Like scatterByPut(), with two uneven chunks on three streams. Rows are summed when they arrive.
std::string scatterInChunks(const Options &options);
/// The sum travels from rank to rank, and each rank adds its partial result.
std::string scatterAroundRing(const Options &options);
/// Every rank pushes its whole partial result to all ranks, which add them.
std::string reduceToAll(const Options &options);
/// Gathers rows of X for a GEMM with split columns, whose result is contracted over devices.
std::string gatherAndScatter(const Options &options);

} // namespace braid::test::reductions
