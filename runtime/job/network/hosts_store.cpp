//===- runtime/job/network/hosts_store.cpp - finds the store that a job's hosts share ---------===//

#include "runtime/job/network/hosts_store.h"

#include "ir/failure.h"
#include "ir/printable.h"
#include "runtime/job/bootstrap/start_thread.h"
#include "runtime/job/network/tcp_store.h"
#include "runtime/loader.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// -- PMIx. mpirun, prterun and srun --mpi=pmix run PMIx servers, which processes access through
// libpmix.so.2. Rank 0 puts and commits a string; a rank that gets the string blocks until it has
// been committed. There is no other synchronization, in particular no fence. --

// The subset of the PMIx 2 API used here. Types that have grown since PMIx 2 are used only in
// arrays of one element.
struct Process {
  char nameSpace[256] = {};
  uint32_t rank = 0;
};
struct Value {
  uint16_t type = 0;
  union {
    char *text;
    int number;
    char room[40];
  } data = {};
};
struct Info {
  char key[512] = {};
  uint32_t flags = 0;
  Value value;
};
static_assert(offsetof(Value, data) == 8 && offsetof(Info, value) == 520);

enum Code : int { Success = 0, NotFoundYet = -46, TimedOutCode = -24 };
constexpr uint16_t kText = 3, kInteger = 6;
constexpr uint8_t kForAll = 3; ///< PMIX_GLOBAL

/// The server's time limit for a reply. Values that are not yet available are requested again.
constexpr int kSecondsOfServer = 1;
/// A rank that leaves with a pending request cannot finalize PMIx, and mpirun treats that as a
/// crash. Calls therefore wait slightly beyond their deadline for the reply to a pending request.
constexpr milliseconds kForLastAnswer{3000}, kPause{20};

/// Frees a value, as PMIX_VALUE_RELEASE does, and returns its text. Returns an empty string unless
/// the value is a string of at most kLongest characters.
std::string takeText(Value *value) {
  constexpr size_t kLongest = 300;
  std::string text;
  if (value->type == kText && value->data.text) {
    const size_t size = strnlen(value->data.text, kLongest + 1);
    text.assign(value->data.text, size <= kLongest ? size : 0);
    std::free(value->data.text);
  }
  std::free(value);
  return text;
}

/// This rank's connection to its PMIx server, through a library that is never unloaded, because it
/// may have started threads. Every rank of the job must open a connection, and finalize it before
/// the process exits. Calls return TimedOut at the deadline, or up to three seconds later if a
/// request is pending, and PeerFailed if the launcher is gone. Pending calls share ownership.
class Pmix : public std::enable_shared_from_this<Pmix> {
public:
  /// Returns Unsupported if the library (named by BRAID_PMIX_LIBRARY) or its server is missing.
  static Result<std::shared_ptr<Pmix>> open(const Place &place, const Environment &environment,
                                            Deadline deadline) {
    auto pmix = std::make_shared<Pmix>();
    pmix->key_ = storePrefix(place.job) + "store";
    BRAID_TRY(pmix->load(environment("BRAID_PMIX_LIBRARY").value_or("libpmix.so.2")));
    const Status begun =
        pmix->run(deadline, [](Pmix &its) { return its.init_(&its.self_, nullptr, 0); });
    if (begun.code() == StatusCode::PeerFailed)
      return unsupported("PMIx: {}", begun.message());
    BRAID_TRY(begun);
    if (pmix->self_.rank == static_cast<uint32_t>(place.rank))
      return pmix;
    pmix->finalize();
    return badInput("expected PMIx to report rank {}, got {}", place.rank, pmix->self_.rank);
  }
  /// Disconnects from the server, and waits briefly for its reply.
  void finalize() {
    (void)run(deadlineIn(kForLastAnswer), [](Pmix &its) { return its.finalize_(nullptr, 0); });
  }

  /// Publishes `text`. Called once, by rank 0.
  Status put(const std::string &text, Deadline deadline) {
    return run(deadline, [text](Pmix &its) {
      Value entry;
      entry.type = kText;
      entry.data.text = const_cast<char *>(text.c_str()); // PMIx copies the text
      const int put = its.put_(kForAll, its.key_.c_str(), &entry);
      return put == Success ? its.commit_() : put;
    });
  }

  /// Blocks until rank 0 has put a string, and returns it. Returns BadInput for any other value.
  Result<std::string> get(Deadline deadline) {
    auto text = std::make_shared<std::string>();
    BRAID_TRY(run(deadline, [=](Pmix &its) {
      Process owner = its.self_;
      owner.rank = 0;
      Info limit;
      std::strcpy(limit.key, "pmix.timeout");
      limit.value.type = kInteger;
      limit.value.data.number = kSecondsOfServer;
      for (;;) {
        Value *value = nullptr;
        const int code = its.get_(&owner, its.key_.c_str(), &limit, 1, &value);
        if (code == Success && value)
          *text = takeText(value);
        if ((code != NotFoundYet && code != TimedOutCode) || Clock::now() >= deadline)
          return code;
        std::this_thread::sleep_for(kPause);
      }
    }));
    if (text->empty())
      return badInput("PMIx did not return the string that Braid stored");
    return *text;
  }

private:
  Status load(const std::string &file) {
    void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return unsupported(
          "PMIx: {}; set BRAID_PMIX_LIBRARY to the path of the launcher's libpmix.so.2",
          loaderError());
    auto find = [&](const char *name, auto &function) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    find("PMIx_Error_string", explain_);
    if (!find("PMIx_Init", init_) || !find("PMIx_Finalize", finalize_) || !find("PMIx_Put", put_) ||
        !find("PMIx_Commit", commit_) || !find("PMIx_Get", get_))
      return unsupported("PMIx: {} lacks a function that PMIx 2 defines", file);
    return Status::ok();
  }

  /// Calls PMIx on a separate thread, which is abandoned at the deadline. Returns TimedOut soon
  /// after the deadline, and PeerFailed, with PMIx's reason, for other errors of `call`.
  Status run(Deadline deadline, std::function<int(Pmix &)> call) {
    auto answer = std::make_shared<std::promise<int>>();
    std::future<int> future = answer->get_future();
    std::thread thread;
    BRAID_TRY(startThread(thread, "calling PMIx",
                          [=, its = shared_from_this()] { answer->set_value(call(*its)); }));
    thread.detach();
    const auto status = future.wait_until(std::max(deadline, deadlineIn(kForLastAnswer)));
    const int code = status == std::future_status::ready ? future.get() : int(TimedOutCode);
    if (code == NotFoundYet || code == TimedOutCode)
      return timedOut("the PMIx server did not respond in time");
    return code == Success ? Status::ok()
                           : peerFailed("the PMIx server failed: {} ({})",
                                        explain_ ? explain_(code) : "unknown error", code);
  }

  int (*init_)(Process *, Info *, size_t) = nullptr;
  int (*finalize_)(const Info *, size_t) = nullptr;
  int (*put_)(uint8_t, const char *, Value *) = nullptr;
  int (*commit_)() = nullptr;
  int (*get_)(const Process *, const char *, const Info *, size_t, Value **) = nullptr;
  const char *(*explain_)(int) = nullptr;
  Process self_; ///< written by init_(), possibly after its deadline
  std::string key_;
};

// -- The store. --

Status noStore(const std::string &why) {
  return unsupported("{}; alternatively, set BRAID_RENDEZVOUS=tcp://host:port on all ranks", why);
}

/// Connects to the store, retrying until the deadline. A proxy may accept a connection and close it
/// because the store is not running yet, so a connection counts only once the store has answered.
Result<std::unique_ptr<Store>> connectToStore(const TcpAddress &at, const std::string &whose,
                                              Deadline deadline) {
  constexpr std::chrono::milliseconds kBeforeNextTry{50};
  for (Status why;;) {
    Result<FileDescriptor> socket = connectTo(at, whose, deadline);
    Status tried = socket.status();
    if (socket) {
      std::unique_ptr<Store> store = storeThrough(std::move(*socket), whose);
      do
        tried = store->poll("is anybody there").status();
      while (tried.code() == StatusCode::TimedOut && Clock::now() < deadline);
      if (tried.isOk())
        return store;
    }
    if (tried.code() != StatusCode::PeerFailed && tried.code() != StatusCode::TimedOut)
      return tried;
    // Report an earlier error rather than that of an attempt cut short by the deadline.
    if (why.isOk() || tried.code() == StatusCode::PeerFailed)
      why = tried;
    if (Clock::now() >= deadline)
      return Status(StatusCode::TimedOut, why.message());
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + kBeforeNextTry));
  }
}

class LaunchersStore final : public HostsStore {
public:
  LaunchersStore(const Place &place, const Environment &environment)
      : place_(place), environment_(environment) {}
  ~LaunchersStore() override {
    if (pmix_)
      pmix_->finalize();
  }

  Status start(Deadline deadline) {
    given_ = BRAID_TRY(rendezvousAddress(environment_));
    if (given_ || place_.source == "torchrun")
      return Status::ok();
    if (place_.source == "Open MPI" ||
        (place_.source == "SLURM" && environment_("PMIX_NAMESPACE"))) {
      auto pmix = Pmix::open(place_, environment_, deadline);
      if (pmix.status().code() == StatusCode::Unsupported)
        return noStore(pmix.status().message());
      pmix_ = BRAID_TRY(std::move(pmix));
      return Status::ok();
    }
    return noStore(fmt::format("{} provides no store through which hosts can connect: use "
                               "torchrun, Open MPI's mpirun, or srun --mpi=pmix",
                               place_.source));
  }

  Result<std::unique_ptr<Store>> connect(Deadline deadline) override {
    if (!given_ && !pmix_)
      return connectToTorchrun(deadline);
    std::optional<TcpAddress> at = given_;
    if (place_.host == 0) {
      at = BRAID_TRY(startServer(deadline));
    } else if (!at) {
      const std::string text = BRAID_TRY(pmix_->get(deadline));
      at = parseTcpAddress(text);
      if (!at)
        return badInput("expected PMIx to provide the address of host 0, got '{}'",
                        printable(text, 80));
    }
    return connectToStore(*at, fmt::format("host 0 at {}", textOf(*at)), deadline);
  }

private:
  /// If torchrun does not run a store, torch.distributed.init_process_group starts one in rank 0.
  Result<std::unique_ptr<Store>> connectToTorchrun(Deadline deadline) {
    TcpAddress at{environment_("MASTER_ADDR").value_or(""), 0};
    const std::string port = environment_("MASTER_PORT").value_or("");
    if (llvm::StringRef(port).getAsInteger(10, at.port) || at.port == 0)
      return badInput("expected MASTER_PORT to be a port number, got '{}'", printable(port, 20));
    const std::string whose =
        fmt::format("the store of torchrun or torch.distributed.init_process_group at {}:{}",
                    printable(at.host, 253), at.port);
    return connectToStore(at, whose, deadline);
  }

  Result<TcpAddress> startServer(Deadline deadline) {
    const TcpAddress at = given_ ? *given_ : TcpAddress{BRAID_TRY(addressOfThisHost()), 0};
    server_ = BRAID_TRY(StoreServer::start(at, place_.hosts));
    if (pmix_)
      BRAID_TRY(pmix_->put("tcp://" + textOf(server_->address()), deadline));
    return server_->address();
  }

  const Place place_;
  const Environment environment_;
  std::optional<TcpAddress> given_; ///< from BRAID_RENDEZVOUS
  std::shared_ptr<Pmix> pmix_;
  std::unique_ptr<StoreServer> server_;
};

} // namespace

Result<std::unique_ptr<HostsStore>>
HostsStore::open(const Place &place, const Environment &environment, Deadline deadline) {
  auto store = std::make_unique<LaunchersStore>(place, environment);
  BRAID_TRY(store->start(deadline));
  return std::unique_ptr<HostsStore>(std::move(store));
}

} // namespace braid
