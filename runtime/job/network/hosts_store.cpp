//===- runtime/job/network/hosts_store.cpp - finds the store that a job's hosts share ---------===//

#include "runtime/job/network/hosts_store.h"

#include "ir/failure.h"
#include "ir/printable.h"

#include <thread>

namespace braid {
namespace {

Status noStore(const std::string &why) {
  return unsupported("{}; or set BRAID_RENDEZVOUS=tcp://host:port on all ranks", why);
}

using Clock = std::chrono::steady_clock;

/// Connects to the store, retrying until the deadline. A proxy may accept a connection and close it
/// because the store is not running yet, so a connection counts only once the store has answered.
Result<std::unique_ptr<Store>> connectToStore(const TcpAddress &at, const std::string &whose,
                                              Deadline deadline) {
  constexpr std::chrono::milliseconds kBeforeNextTry{50};
  for (Status why;;) {
    Result<FileDescriptor> socket = connectTo(at, whose, deadline);
    Status tried = socket.status();
    if (socket) {
      std::unique_ptr<Store> store = std::make_unique<TcpStore>(std::move(*socket), whose);
      do
        tried = store->poll("is anybody there").status();
      while (tried.code() == StatusCode::TimedOut && Clock::now() < deadline);
      if (tried.isOk())
        return store;
    }
    if (tried.code() != StatusCode::PeerFailed && tried.code() != StatusCode::TimedOut)
      return tried;
    // Prefer an earlier error to that of an attempt cut short by the deadline.
    if (why.isOk() || tried.code() == StatusCode::PeerFailed)
      why = tried;
    if (Clock::now() >= deadline)
      return Status(StatusCode::TimedOut, why.message());
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + kBeforeNextTry));
  }
}

} // namespace

Result<std::unique_ptr<HostsStore>>
HostsStore::open(const Place &place, const Environment &environment, Deadline deadline) {
  std::unique_ptr<HostsStore> store(new HostsStore(place, environment));
  store->given_ = BRAID_TRY(rendezvousAddress(environment));
  if (store->given_ || place.source == "torchrun")
    return store;
  if (place.source == "Open MPI" || (place.source == "SLURM" && environment("PMIX_NAMESPACE"))) {
    auto pmix = Pmix::open(place, environment, deadline);
    if (pmix.status().code() == StatusCode::Unsupported)
      return noStore(pmix.status().message());
    store->pmix_ = BRAID_TRY(std::move(pmix));
    return store;
  }
  return noStore(fmt::format("{} has no store through which hosts meet: use torchrun, mpirun of "
                             "Open MPI, or srun --mpi=pmix",
                             place.source));
}

Result<std::unique_ptr<Store>> HostsStore::connect(Deadline deadline) {
  if (!given_ && !pmix_)
    return connectToTorchrun(deadline);
  const TcpAddress at = BRAID_TRY(place_.host == 0 ? startServer(deadline) : findServer(deadline));
  return connectToStore(at, fmt::format("host 0 at {}", textOf(at)), deadline);
}

/// If torchrun runs no store, torch.distributed.init_process_group starts one in rank 0's process.
Result<std::unique_ptr<Store>> HostsStore::connectToTorchrun(Deadline deadline) {
  TcpAddress at{environment_("MASTER_ADDR").value_or(""), 0};
  const std::string port = environment_("MASTER_PORT").value_or("");
  if (llvm::StringRef(port).getAsInteger(10, at.port) || at.port == 0)
    return badInput("expected MASTER_PORT to be a port, got '{}'", printable(port, 20));
  const std::string whose =
      fmt::format("the store of torchrun or torch.distributed.init_process_group at {}:{}",
                  printable(at.host, 253), at.port);
  return connectToStore(at, whose, deadline);
}

Result<TcpAddress> HostsStore::startServer(Deadline deadline) {
  const TcpAddress at = given_ ? *given_ : TcpAddress{BRAID_TRY(addressOfThisHost()), 0};
  server_ = BRAID_TRY(StoreServer::start(at, place_.hosts));
  if (pmix_)
    BRAID_TRY(pmix_->put("tcp://" + textOf(server_->address()), deadline));
  return server_->address();
}

Result<TcpAddress> HostsStore::findServer(Deadline deadline) {
  if (given_)
    return *given_;
  const std::string text = BRAID_TRY(pmix_->get(deadline));
  const std::optional<TcpAddress> at = parseTcpAddress(text);
  if (!at)
    return badInput("expected PMIx to say where host 0 is, got '{}'", printable(text, 80));
  return *at;
}

} // namespace braid
