//===- runtime/job/network/launcher_store.h - what ranks reach before they know of each other -===//
//
// The hosts of a job find each other through a store of texts that their launcher has:
//
//   torchrun   its TCPStore, spoken over a socket                               torch_store.h
//   PMI        names published over PMI_FD: MPICH, Intel MPI, srun --mpi=pmi2   pmi_store.h
//   Open MPI   PMIx, by its library: mpirun, prterun; also srun --mpi=pmix      pmix_store.h
//
// Whoever can speak to the launcher can read what is in its store. torchrun's listens on all
// interfaces and asks for no secret; those of PMI and PMIx are open to processes of the job.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/socket.h"

namespace braid {

/// A launcher's store of texts, which all ranks of its job reach. Rank 0 puts, others get. Calls
/// are made by one thread at a time. A name is of letters, digits, '-', '_' and '.', at most
/// kMaxStoreName; a value is any bytes, at most kMaxStoreValue. What was put stays at least as long
/// as the store of rank 0 is open.
class LauncherStore {
public:
  virtual ~LauncherStore() = default;
  // Both block, at most until the deadline: TimedOut then. PeerFailed if the launcher is gone.
  /// Once for each name: a second value for it is an error, or takes the place of the first.
  virtual Status put(const std::string &name, const std::string &value, Deadline deadline) = 0;
  /// Waits until it has been put. BadInput for an answer that put() did not make.
  virtual Result<std::string> get(const std::string &name, Deadline deadline) = 0;
  /// An address that others who reach the launcher may reach this host by. Default: as tcp.h.
  virtual Result<std::string> addressOfThisHost(Deadline deadline);
};
inline constexpr size_t kMaxStoreName = 32;
/// PMI has lines of 1024 bytes for all, and escapes what is no letter or digit.
inline constexpr size_t kMaxStoreValue = 256;

/// The store of the launcher that `place` came from. Blocks at most until the deadline.
/// Unsupported, naming BRAID_RENDEZVOUS and BRAID_SECRET_FILE, where it has none.
///
/// Every rank of the job opens it, also those that have nothing to put or get, and closes it before
/// the process ends: Open MPI ends a job of which only some ranks have been PMIx's.
///
/// A process that speaks PMI itself (MPI of MPICH or Intel) has one connection to the launcher for
/// both, which is not shared: it has to use BRAID_RENDEZVOUS.
Result<std::unique_ptr<LauncherStore>>
openLauncherStore(const Place &place, const Environment &environment, Deadline deadline);

// -- For stores. --

/// "braid/6f1c.../address": where the job of that name has `name`. Unlike that of any other job.
std::string storeKey(const std::string &job, const std::string &name);
/// BadInput unless they are as LauncherStore wants them.
Status checkStoreEntry(const std::string &name, const std::string &value);
/// A value as a text of letters, digits and "-._:/%" at most three times as long, and back: nothing
/// for a text that is not of that form.
std::string escapeStoreValue(const std::string &value);
std::optional<std::string> unescapeStoreValue(llvm::StringRef text);

} // namespace braid
