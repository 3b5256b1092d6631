//===- runtime/execute/handshake.h - what ranks tell each other while preparing ---------------===//
#pragma once

#include "api/status.h"
#include "runtime/plan/plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace braid {

/// One endpoint of a rank, as it is published to peers.
struct PublishedEndpoint {
  Direction direction = Direction::Send;
  int64_t peer = 0;
  uint32_t channel = 0, sequence = 0;
  DType dtype = DType::F32;
  int64_t bytes = 0;
  int64_t flagOffset = 0; ///< offset of the awaited flag in the exported flags
  int64_t dataOffset = 0; ///< offset of the local side in the exported memory, or -1 if elsewhere
  std::string where;      ///< node and place, for messages
};

/// One rank's message. Text, so that ranks in other processes can read it.
struct Hello {
  std::string program;
  uint64_t fingerprint = 0;
  std::string memory; ///< handle of the symmetric arena
  std::string flags;  ///< handle of the flags
  std::vector<PublishedEndpoint> endpoints;

  std::string encode() const;
  /// Keeps only endpoints whose peer is `reader`. BadInput if encode() cannot have made `text`.
  static Result<Hello> decode(llvm::StringRef text, int64_t reader);
};

/// All ranks run the same program.
bool haveSameProgram(const std::vector<Hello> &ranks);

/// BadInput: which ranks run which program, and the first line in which the texts of the programs
/// differ. `texts` has one for each rank.
Status programDifference(const std::vector<Hello> &ranks, const std::vector<std::string> &texts);

/// Lists the ranks' texts, with equal ones together: "\n  ranks 0 and 2: ...\n  rank 1: ...". Ranks
/// with an empty text are left out.
std::string listByRank(const std::vector<std::string> &sayings);
/// The first line in which the ranks' texts differ, in such a list; empty if none does.
std::string firstDifference(const std::vector<std::string> &texts);

/// Something that all ranks have to choose alike: {"--iterations", "5"} of the command's own flags,
/// {"reproducible", "yes"} of what C, C++ and Python have, too.
struct Choice {
  std::string name, value;
};
std::string encodeChoices(const std::vector<Choice> &choices);
/// `texts` are all ranks' encodeChoices(), which name the same things in the same order. BadInput
/// says for the first one that is not the same everywhere which ranks have which value.
Status compareChoices(const std::vector<std::string> &texts);

/// The collectives of a rank, in issue order. In windows they lie at the same place on all members:
/// a library takes what it knows of the own place for the peers'.
std::string encodeCollectives(const Plan &plan, bool areInWindows = false);
/// `texts` are all ranks' encodeCollectives(). The teams of all, each once, in an order that is the
/// same on all ranks. BadInput says for the first collective of a team that is not the same on its
/// members which ones have what there.
Result<std::vector<std::vector<int64_t>>> compareCollectives(const std::vector<std::string> &texts);

/// The endpoint on the peer that `mine` of rank `rank` meets. BadInput if there is none, or if
/// bytes or element types differ.
Result<const PublishedEndpoint *> matchingEndpoint(const std::vector<Hello> &ranks, int64_t rank,
                                                   const PublishedEndpoint &mine);

} // namespace braid
