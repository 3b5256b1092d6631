//===- runtime/execute/handshake.h - data that ranks exchange while preparing -----------------===//
#pragma once

#include "api/status.h"
#include "runtime/plan/plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace braid {

/// The description of an endpoint that a rank publishes to its peers.
struct PublishedEndpoint {
  Direction direction = Direction::Send;
  int64_t peer = 0;
  uint32_t channel = 0, sequence = 0;
  DType dtype = DType::F32;
  int64_t bytes = 0;
  int64_t flagOffset = 0; ///< offset of the awaited flag in the exported flags
  int64_t dataOffset = 0; ///< offset of the local side in exported memory, or -1 if not exported
  std::string where;      ///< node and source location, for diagnostics
};

/// The message that a rank publishes, encoded as text for ranks in other processes.
struct Hello {
  std::string program;
  uint64_t fingerprint = 0;
  std::string memory; ///< handle of the symmetric arena
  std::string flags;  ///< handle of the flags
  std::vector<PublishedEndpoint> endpoints;

  std::string encode() const;
  /// Decodes only endpoints whose peer is `reader`. Fails with BadInput if `text` is malformed.
  static Result<Hello> decode(llvm::StringRef text, int64_t reader);
};

/// Returns true if all ranks run the same program.
bool haveSameProgram(const std::vector<Hello> &ranks);

/// Returns BadInput, naming the ranks of each program and the first line in which the program texts
/// differ. `texts` contains one text per rank.
Status programDifference(const std::vector<Hello> &ranks, const std::vector<std::string> &texts);

/// Lists the ranks' texts, with equal texts grouped: "\n ranks 0 and 2: ...\n rank 1: ...". Omits
/// ranks with an empty text.
std::string listByRank(const std::vector<std::string> &sayings);
/// Finds the first line that differs between the texts, and lists each rank's version of it in the
/// format of listByRank(). Empty if all texts are equal.
std::string firstDifference(const std::vector<std::string> &texts);

/// A choice that must be the same on all ranks: {"--iterations", "5"} for a command-line flag, or
/// {"reproducible", "yes"} for an option that is also in the C, C++ and Python APIs.
struct Choice {
  std::string name, value;
};
std::string encodeChoices(const std::vector<Choice> &choices);
/// Compares all ranks' encodeChoices(), which must name the same choices in the same order. Fails
/// with BadInput on the first choice that differs, listing the ranks for each value.
Status compareChoices(const std::vector<std::string> &texts);

/// Returns the peer's endpoint that matches endpoint `mine` of rank `rank`. Fails with BadInput if
/// no endpoint matches, or if sizes or element types differ.
Result<const PublishedEndpoint *> matchingEndpoint(const std::vector<Hello> &ranks, int64_t rank,
                                                   const PublishedEndpoint &mine);

} // namespace braid
