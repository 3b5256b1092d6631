//===- tests/pairs/link_faults.h - CPU ranks whose links have faults, as data -----------------===//
//
// The cpu backend, with links between its ranks: a copy from one to another takes a latency and
// what its bytes take, by the clock, and so much longer than the copy itself that what else the
// machine does is not seen. On top of that come faults.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/execute/backend.h"

#include <iosfwd>

namespace braid::test {

/// Which copies a fault strikes.
enum class LinkPath : uint8_t { Put, Get, Host, All };

struct LinkFault {
  enum class Kind : uint8_t {
    Slow,         ///< takes `factor` times as long
    SlowTogether, ///< does while more than two ranks run
    Hang,         ///< a copy of `bytes` never ends
    Crash,        ///< SIGSEGV in a copy of `bytes`
    Exit,         ///< exit status 3 in one
    Flip,         ///< copy number `count` of `bytes` has one bit at `offset` wrong
    Bridge,       ///< is on bridge number `count`: takes `factor` times as long while a copy of
                  ///< another two devices is on it
    FlipTogether, ///< each of `bytes` has while more than two ranks run
  };
  Kind kind = Kind::Slow;
  int64_t source = 0, destination = 1; ///< devices
  LinkPath path = LinkPath::All;
  double factor = 1;
  int64_t bytes = 0, count = 0, offset = 0;
};

struct FaultyLinks {
  double latencyUs = 200, bytesPerUs = 1000;
  bool hasGraphs = false; ///< runs are recorded, and replayed
  std::vector<LinkFault> faults;

  /// For the variable below, and back.
  std::string encode() const;
  static FaultyLinks decode(const std::string &text);
};
std::ostream &operator<<(std::ostream &os, const LinkFault &fault);
const char *nameOf(LinkFault::Kind kind);

/// The environment variable that has the links of a process that measures; without it there are no
/// such.
inline constexpr const char *kLinksVariable = "BRAID_TEST_LINKS";

/// The backend cpu with the links of the environment.
BackendRegistry faultyBackends();

} // namespace braid::test
