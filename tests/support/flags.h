//===- tests/support/flags.h - single signals and awaits --------------------------------------===//
#pragma once

#include "runtime/execute/device.h"

namespace braid::test {

inline void issueFlag(Device &device, uint32_t stream, Tag tag, CommandKind kind, void *flag,
                      uint32_t epoch) {
  const BatchedCommand step{kind, tag.command, flag, nullptr, nullptr, 0};
  tag.run = epoch;
  device.peerMemory()->issueBatch(stream, tag, step, /*areDisjoint=*/true, {});
}

inline void signal(Device &device, uint32_t stream, Tag tag, void *flag, uint32_t epoch) {
  issueFlag(device, stream, tag, CommandKind::Signal, flag, epoch);
}

inline void await(Device &device, uint32_t stream, Tag tag, const void *flag, uint32_t epoch) {
  issueFlag(device, stream, tag, CommandKind::Await, const_cast<void *>(flag), epoch);
}

} // namespace braid::test
