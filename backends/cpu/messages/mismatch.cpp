//===- backends/cpu/messages/mismatch.cpp - messages whose sides do not fit, in words ---------===//

#include "backends/cpu/messages/mismatch.h"

#include "ir/failure.h"

#include <fmt/format.h>

namespace braid {

std::string describe(const Tag &tag) {
  const bool isKnown = tag.plan && tag.command < tag.plan->commands.size();
  return fmt::format("{}, run {}",
                     isKnown ? describeOrigin(*tag.plan, tag.plan->commands[tag.command].origin)
                             : "a command of no plan",
                     tag.run);
}

Status mismatch(const MessageSide &sender, const MessageSide &receiver, uint32_t number) {
  return badInput("message {} from rank {} to rank {}: expected as many bytes to be sent as "
                  "received, got {} sent in {} and {} received in {}",
                  number, sender.rank, receiver.rank, sender.bytes, sender.command, receiver.bytes,
                  receiver.command);
}

} // namespace braid
