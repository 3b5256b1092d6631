//===- tests/processes/fault.h - faults of a rank and their sites -----------------------------===//
//
// A rank in a test first arms a list of faults. Each fault strikes once, at one site:
//
//  Join, ...       a step of the host thread
//  Issue, Run      the host thread is about to issue a command; a worker thread is about to run it
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
  Teardown, ///< while the worker threads still exist
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

/// Returns true if the action can happen at the site.
bool isPossible(Action action, Site site);

/// Arms the faults of `rank` in this process. `onStrike` is called before a fault strikes.
void arm(const std::vector<Fault> &faults, int64_t rank, std::function<void()> onStrike);
/// Must be called when the host thread reaches `site`. Triggers the fault that is armed there, if
/// any.
void pass(Site site);
/// The kinds of the messages sent and received so far. Each message is represented by its first
/// letter, and a part of an all-gather by kPart.
inline constexpr char kPart = 'P';
std::string sentKinds();
std::string receivedKinds();

/// Returns the cpu backend, in which the armed faults strike.
Backend faultyBackend();

} // namespace braid::test
