//===- runtime/job/bootstrap/environment.h - which rank of a job this process is --------------===//
//
// Launchers tell a process its place by environment variables, and a process may see those of
// several: torchrun inside srun, mpirun inside a SLURM job. One source is chosen, whole: the first
// in this order whose rank or number of ranks is set; SLURM's are set beside SLURM_STEP_ID.
//
//   BRAID_*    BRAID_RANK, BRAID_RANKS        braid run --processes, or a user by hand
//   torchrun   RANK, WORLD_SIZE
//   Open MPI   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
//   PMI        PMI_RANK, PMI_SIZE             MPICH, Intel MPI
//   SLURM      SLURM_PROCID, SLURM_STEP_NUM_TASKS                srun
//
// A source of which only some variables are set, or whose variables contradict each other, is an
// error that lists everything that was found. A batch script is no rank: SLURM sets SLURM_PROCID
// and SLURM_NTASKS there too, but no SLURM_STEP_ID, or one that stands for the script. Where srun
// sets PMI's variables for its ranks, SLURM's count, as only they say what is on which host.
//
// A host is a set of ranks that one launcher's daemon has started: two daemons on one machine are
// two hosts. Each has equally many ranks, with consecutive numbers:
// rank = host * localRanks + localRank. A job on one host may number its ranks there at will.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace braid {

/// The place of this process in a job.
struct Place {
  std::string source; ///< "BRAID_*", "torchrun", "Open MPI", "PMI" or "SLURM"
  int64_t rank = 0, ranks = 1;
  int64_t localRank = 0, localRanks = 1; ///< on this host
  int64_t host = 0, hosts = 1;           ///< this host's number, and how many there are
  /// Equal on all ranks of the job, and unlike that of any other job of this user on this host.
  std::string job;
  /// The name of the socket of a launcher of ours, which hosts the job; empty: rank 0 does.
  std::string meeting = {};
};

/// Looks up a variable; nothing if it is not set, or is empty, which launchers and shells take for
/// not set. Never gives an empty value.
using Environment = std::function<std::optional<std::string>(const std::string &name)>;
Environment processEnvironment();

/// This process's place, or nothing if no launcher says anything. BadInput for what is partial,
/// malformed (not a whole number, rank >= ranks) or contradictory: the message lists each variable
/// that was found, with its source and value. Unsupported if the ranks of a host are not
/// consecutive, or hosts have unlike numbers of them, as far as this rank is told: of hosts that
/// have 4 and 2 ranks, the second may see nothing wrong.
///
/// Ranks started by hand, with BRAID_RANK and BRAID_RANKS, are the job BRAID_JOB or else "default",
/// so two such jobs at the same time need names. So do two jobs of a PMI launcher. Where PMI or
/// BRAID_LOCAL_RANKS does not say which ranks are on this host, all ranks are.
Result<std::optional<Place>> findPlace(const Environment &environment);

/// The variables that make findPlace() look for a place, "RANK, WORLD_SIZE": without them it finds
/// none, or that of an outer launcher. Empty if there are none.
std::string variablesOfPlace(const Environment &environment);

/// The value of a BRAID_* variable that is on or off: `otherwise` if it is not
/// set, BadInput if it is anything else.
Result<bool> isOn(const Environment &environment, const std::string &name, bool otherwise);
/// The numbers that BRAID_DEVICES has, in rank order; none if it is not set. BadInput unless they
/// are whole numbers with commas between them, each once.
Result<std::vector<int64_t>> devicesOfRanks(const Environment &environment);
struct TcpAddress {
  std::string host; ///< a name or an address, that of IPv6 without brackets
  uint16_t port = 0;
};
/// Nothing unless `text` is tcp://host:port.
std::optional<TcpAddress> parseTcpAddress(const std::string &text);
/// The value of BRAID_RENDEZVOUS. Nothing if it is not set; BadInput if it is no such address.
Result<std::optional<TcpAddress>> rendezvousAddress(const Environment &environment);
/// BadInput unless all such settings are on, off or not set, and BRAID_DEVICES and BRAID_RENDEZVOUS
/// are as above.
Status checkSettings(const Environment &environment);

/// A variable that Braid reads, for `braid env`.
struct VariableReport {
  std::string name;
  std::string source;  ///< as in Place, or "braid" for settings
  std::string meaning; ///< one line
  std::optional<std::string> value;
  /// True for a setting that is set. True for a variable of the chosen launcher that is set, unless
  /// another variable takes precedence.
  bool counts = false;
};
/// Every variable that is read anywhere, in the order in which sources are looked at.
std::vector<VariableReport> reportVariables(const Environment &environment);

} // namespace braid
