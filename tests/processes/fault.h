//===- tests/processes/fault.h - faults of a rank and their sites -----------------------------===//
//
// A rank of a test first arms a list of faults. Each of them strikes once, at one site:
//
//  Join, ...       a step of the host thread
//  Issue, Run      the host thread is about to issue a command; a worker is about to run it
//  Send            the host thread is about to send a message, or has sent half of it
//  Receive         the beginning of a message has been read
//
// Messages are intercepted at system calls: this library defines sendmsg(), recvmsg() and pwrite(),
// which take precedence over the C library's.
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
  DelayBelow, ///< a delay below the timeout
  DelayAbove,
  Drop,  ///< Run: the command is skipped
  Short, ///< SendHalf: the part is written in small pieces
  Cut,   ///< Send: the connection is closed for sending
};
inline constexpr int kActions = 10;
const char *name(Action action);

enum class Site : uint8_t {
  Join,   ///< before joining
  Joined, ///< before any program is prepared
  Commit, ///< before the last step
  Committed,
  Teardown, ///< while the workers still exist
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
  uint32_t index = 0; ///< number of a command in its Plan, or of a rank's message, counted from 0
  uint32_t run = 0;   ///< Issue, Run: counted from 1
  int64_t belowMs = 0, aboveMs = 0; ///< lengths of delays
};
std::string str(const Fault &fault);
std::ostream &operator<<(std::ostream &os, const Fault &fault);
std::istream &operator>>(std::istream &is, Fault &fault);

/// Returns whether the action can happen at the site.
bool isPossible(Action action, Site site);

/// Arms the faults of `rank` in this process. `onStrike` is called before a fault strikes.
void arm(const std::vector<Fault> &faults, int64_t rank, std::function<void()> onStrike);
/// Tells that the host thread is at `site`.
void pass(Site site);
/// The kinds of messages that were sent and received so far, as their first letters. kPart
/// represents a part of an all-gather.
inline constexpr char kPart = 'P';
std::string sentKinds();
std::string receivedKinds();

/// Returns the cpu backend with armed faults.
Backend faultyBackend();

} // namespace braid::test
