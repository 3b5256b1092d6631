//===- tests/processes/fault.h - what goes wrong on a rank, and where -------------------------===//
//
// A rank of a test arms a list of faults before it does anything else. Each of them strikes at one
// site, once:
//
//   Join, ...       a point in what its host thread does
//   Issue, Run      the host thread is about to issue a command; a worker is about to run it
//   Send            the host thread is about to send a message, or has sent half of it
//   Receive         the beginning of a message has been read
//
// Messages are seen where they meet the system: this library's sendmsg(), recvmsg() and pwrite()
// stand before those of the C library.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

#include <iosfwd>

namespace braid::test {

enum class Action : uint8_t {
  Nothing,
  Kill,       ///< SIGKILL
  Stop,       ///< SIGSTOP
  Throw,      ///< an exception
  Exit,       ///< with status 0
  DelayBelow, ///< the timeout
  DelayAbove,
  Drop,  ///< Run: the command is passed over
  Short, ///< SendHalf: the part is written in small pieces
  Cut,   ///< Send: the end of the connection
};
inline constexpr int kActions = 10;
const char *name(Action action);

enum class Site : uint8_t {
  Join,   ///< before joining
  Joined, ///< before anything is prepared
  Commit, ///< before the last step
  Committed,
  Teardown, ///< the workers are still there
  Left,     ///< everything has been destroyed
  Issue,
  Run,
  Send,     ///< before a message, or a part of an all-gather
  SendHalf, ///< within a part
  Receive,
};
const char *name(Site site);

struct Fault {
  int64_t rank = -1;
  Action action = Action::Nothing;
  Site site = Site::Join;
  uint32_t index = 0; ///< the number of a command in its Plan, or of a rank's message, from 0
  uint32_t run = 0;   ///< Issue, Run: from 1
  int64_t belowMs = 0, aboveMs = 0; ///< bounds of a delay
};
std::string str(const Fault &fault);
std::ostream &operator<<(std::ostream &os, const Fault &fault);
std::istream &operator>>(std::istream &is, Fault &fault);

/// Whether the action can happen at the site.
bool isPossible(Action action, Site site);

/// Lets the faults of `rank` strike from now on in this process. `onStrike` is called before they
/// do.
void arm(const std::vector<Fault> &faults, int64_t rank, std::function<void()> onStrike);
/// The host thread is at `site`.
void pass(Site site);
/// The kinds of messages that have been sent and received by now, by their first letters; kPart
/// stands for a part of an all-gather.
inline constexpr char kPart = 'P';
std::string sentKinds();
std::string receivedKinds();

/// The cpu backend, in which what is armed strikes.
Backend faultyBackend();

} // namespace braid::test
