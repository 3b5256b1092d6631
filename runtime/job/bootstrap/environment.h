//===- runtime/job/bootstrap/environment.h - finds this process's rank in its job -------------===//
//
// Launchers tell each process its rank through environment variables, and a process may see the
// variables of several launchers: torchrun inside srun, or mpirun inside a SLURM job. Braid uses
// the variables of exactly one launcher: the first one below whose rank or number of ranks is set.
// SLURM also requires SLURM_STEP_ID.
//
//   BRAID_*    BRAID_RANK, BRAID_RANKS        braid run --processes, or set by hand
//   torchrun   RANK, WORLD_SIZE
//   Open MPI   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
//   PMI        PMI_RANK, PMI_SIZE             MPICH, Intel MPI
//   SLURM      SLURM_PROCID, SLURM_STEP_NUM_TASKS                srun
//
// If variables are missing or contradict each other, the error lists all variables found. A SLURM
// batch script is not a rank: SLURM sets SLURM_PROCID and SLURM_NTASKS for it, but SLURM_STEP_ID is
// either unset or identifies the script. If srun sets PMI's variables for its ranks, SLURM's
// variables are used, because only they assign ranks to hosts.
//
// A host is the set of ranks that one launcher daemon has started; two daemons on one machine count
// as two hosts. All hosts have the same number of ranks, numbered consecutively: rank = host *
// localRanks + localRank. A job on a single host may number its ranks in any order.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace braid {

/// This process's position in a job.
struct Place {
  std::string source; ///< "BRAID_*", "torchrun", "Open MPI", "PMI" or "SLURM"
  int64_t rank = 0, ranks = 1;
  int64_t localRank = 0, localRanks = 1; ///< on this host
  int64_t host = 0, hosts = 1;           ///< this host's index and the number of hosts
  /// Identifies the job: the same on all its ranks, and unique among this user's jobs on this host.
  std::string job;
  /// The name of the socket at which a Braid launcher hosts the job. Empty if rank 0 hosts it.
  std::string meeting = {};
};

/// Looks up a variable. Returns nullopt if the variable is unset or empty, which launchers and
/// shells treat as equivalent.
using Environment = std::function<std::optional<std::string>(const std::string &name)>;
Environment processEnvironment();

/// Returns this process's place, or nullopt if no launcher has set one. Returns BadInput for
/// variables that are incomplete, malformed (not an integer, rank >= ranks) or contradictory; the
/// message lists each variable found, with its source and value. Returns Unsupported if this rank's
/// variables show that a host's ranks are not consecutive or that hosts have different numbers of
/// ranks. Not every rank can detect this: with 4 ranks on one host and 2 on another, the ranks on
/// the second host may not notice the mismatch.
///
/// Ranks started by hand with BRAID_RANK and BRAID_RANKS belong to the job named by BRAID_JOB
/// ("default" if unset), so concurrent jobs need different names. The same applies to jobs of a PMI
/// launcher. All ranks are on this host unless PMI or BRAID_LOCAL_RANKS specifies otherwise.
Result<std::optional<Place>> findPlace(const Environment &environment);

/// Returns the names of the variables that make findPlace() select the launcher, for example "RANK,
/// WORLD_SIZE", or "" if there are none. If they were unset, findPlace() would return nullopt or
/// the place set by an outer launcher.
std::string variablesOfPlace(const Environment &environment);

/// Returns the value of the on/off variable `name`, or `otherwise` if it is unset. Returns BadInput
/// for any value other than "on" and "off".
Result<bool> isOn(const Environment &environment, const std::string &name, bool otherwise);
/// Returns the device numbers listed in BRAID_DEVICES, in rank order; empty if it is unset. Returns
/// BadInput unless they are distinct integers separated by commas.
Result<std::vector<int64_t>> devicesOfRanks(const Environment &environment);
struct TcpAddress {
  std::string host; ///< a name or an address; IPv6 addresses have no brackets
  uint16_t port = 0;
};
/// Returns nullopt unless `text` is tcp://host:port.
std::optional<TcpAddress> parseTcpAddress(const std::string &text);
/// Returns the value of BRAID_RENDEZVOUS, nullopt if it is unset, or BadInput if it is malformed.
Result<std::optional<TcpAddress>> rendezvousAddress(const Environment &environment);
/// Returns BadInput if isOn(), devicesOfRanks() or rendezvousAddress() rejects a setting.
Status checkSettings(const Environment &environment);

/// A variable that Braid reads, for `braid doctor`.
struct VariableReport {
  std::string name;
  std::string source;  ///< as in Place, or "braid" for settings
  std::string meaning; ///< one line
  std::optional<std::string> value;
  /// True if the variable takes effect: either a setting that is set, or a variable of the chosen
  /// launcher that is set and not overridden by another variable.
  bool counts = false;
};
/// Returns every variable that Braid reads, in order of precedence.
std::vector<VariableReport> reportVariables(const Environment &environment);

} // namespace braid
