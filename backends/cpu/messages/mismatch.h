//===- backends/cpu/messages/mismatch.h - messages whose sides do not fit, in words -----------===//
#pragma once

#include "api/status.h"
#include "runtime/execute/tag.h"

namespace braid {

/// One side of a message, in words.
struct MessageSide {
  int64_t rank;
  std::string command; ///< as describe() has it
  int64_t bytes;
};

/// "\"p2p send ...\" at ag.braid:3:4, run 2"; without a Plan: "a command of no plan, run 2".
std::string describe(const Tag &tag);

/// BadInput that names both sides: of message `number`, from 0 on, between the two.
Status mismatch(const MessageSide &sender, const MessageSide &receiver, uint32_t number);

} // namespace braid
