//===- runtime/job/network/meet_hosts.h - how the hosts of a job find each other --------------===//
//
//   BRAID_RENDEZVOUS, BRAID_SECRET_FILE   host 0 listens there, the others connect, and all have
//                                         the secret that the files hold
//   neither                               host 0 takes a port of one of its addresses, draws a
//                                         secret, and puts both into the launcher's store
//
// The first rank of each host speaks for it. The port is open until all hosts have come.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/job_memory.h"
#include "runtime/job/bootstrap/other_hosts.h"
#include "runtime/job/network/host_zero.h"
#include "runtime/job/network/launcher_store.h"
#include "runtime/job/network/other_host.h"

#include <variant>

namespace braid {

/// One rank's view. Calls are made by one thread.
class MeetingOfHosts {
public:
  struct Options {
    std::chrono::milliseconds timeout{60000}; ///< for all hosts to come; and of silence, later
    std::function<void(const std::string &)> say = {}; ///< as HostOptions
  };
  /// Every rank of a job on several hosts: reads the secret, or opens the launcher's store, which
  /// stays open as long as this. BadInput for settings that are wrong, or half of them.
  static Result<MeetingOfHosts> open(const Place &place, const Environment &environment,
                                     Options options, Deadline deadline);

  /// The first rank of a host, once: host 0 listens, and says where; the others wait for that, and
  /// connect to it. Blocks at most until the deadline. What the job memory is to be made with.
  Result<HostPlace> begin(Deadline deadline);
  /// After begin(), once. `memory` outlives it.
  std::unique_ptr<OtherHosts> join(JobMemory &memory);

private:
  explicit MeetingOfHosts(const Place &place, Options options)
      : place_(place), options_(std::move(options)) {}
  Result<HostPlace> listen(Deadline deadline);
  Result<HostPlace> connect(Deadline deadline);
  OtherHostOptions optionsOfOther() const;
  std::string context() const;

  Place place_;
  Options options_;
  std::unique_ptr<LauncherStore> store_; ///< null: the user says where
  TcpAddress at_;
  std::string secret_;
  std::variant<std::monostate, TcpListener, HostLink> begun_;
};

} // namespace braid
