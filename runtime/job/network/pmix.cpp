//===- runtime/job/network/pmix.cpp - publishes the address of the hosts' store ---------------===//

#include "runtime/job/network/pmix.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"
#include "runtime/job/bootstrap/store.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>

#include <dlfcn.h>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

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
/// crash. Calls therefore wait for the reply to a pending request a little beyond their deadline.
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

} // namespace

/// The PMIx library. It is never unloaded, because it may have started threads.
struct Pmix::Library : std::enable_shared_from_this<Library> {
  int (*init)(Process *, Info *, size_t) = nullptr;
  int (*finalize)(const Info *, size_t) = nullptr;
  int (*put)(uint8_t, const char *, Value *) = nullptr;
  int (*commit)() = nullptr;
  int (*get)(const Process *, const char *, const Info *, size_t, Value **) = nullptr;
  const char *(*explain)(int) = nullptr;
  Process self; ///< written by init(), possibly after its deadline

  static Result<std::shared_ptr<Library>> open(const Environment &environment) {
    const std::string file = environment("BRAID_PMIX_LIBRARY").value_or("libpmix.so.2");
    void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char *reason = dlerror();
      return unsupported(
          "PMIx: {}; set BRAID_PMIX_LIBRARY to the path of the launcher's libpmix.so.2",
          reason ? reason : file + " cannot be opened");
    }
    auto library = std::make_shared<Library>();
    auto find = [&](const char *name, auto &function) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
      return function != nullptr;
    };
    find("PMIx_Error_string", library->explain);
    if (!find("PMIx_Init", library->init) || !find("PMIx_Finalize", library->finalize) ||
        !find("PMIx_Put", library->put) || !find("PMIx_Commit", library->commit) ||
        !find("PMIx_Get", library->get))
      return unsupported("PMIx: {} lacks a function of PMIx 2", file);
    return library;
  }

  /// Calls PMIx on a separate thread, which is abandoned at the deadline. Returns TimedOut soon
  /// after the deadline, and PeerFailed, with PMIx's reason, for other errors of `call`.
  Status run(Deadline deadline, std::function<int(Library &)> call) {
    auto answer = std::make_shared<std::promise<int>>();
    std::future<int> future = answer->get_future();
    std::thread thread;
    BRAID_TRY(startThread(thread, "calling PMIx", [=, library = shared_from_this()] {
      answer->set_value(call(*library));
    }));
    thread.detach();
    const auto status = future.wait_until(std::max(deadline, deadlineIn(kForLastAnswer)));
    const int code = status == std::future_status::ready ? future.get() : int(TimedOutCode);
    if (code == NotFoundYet || code == TimedOutCode)
      return timedOut("PMIx's server did not answer in time");
    return code == Success ? Status::ok()
                           : peerFailed("PMIx's server failed: {} ({})",
                                        explain ? explain(code) : "an error", code);
  }
};

Result<std::unique_ptr<Pmix>> Pmix::open(const Place &place, const Environment &environment,
                                         Deadline deadline) {
  auto library = BRAID_TRY(Library::open(environment));
  const Status begun =
      library->run(deadline, [](Library &pmix) { return pmix.init(&pmix.self, nullptr, 0); });
  if (begun.code() == StatusCode::PeerFailed)
    return unsupported("PMIx: {}", begun.message());
  BRAID_TRY(begun);
  std::unique_ptr<Pmix> opened(new Pmix(library, storePrefix(place.job) + "store"));
  if (library->self.rank != static_cast<uint32_t>(place.rank))
    return badInput("expected PMIx to say that this is rank {}, got {}", place.rank,
                    library->self.rank);
  return opened;
}

Pmix::~Pmix() {
  (void)library_->run(deadlineIn(kForLastAnswer),
                      [](Library &pmix) { return pmix.finalize(nullptr, 0); });
}

Status Pmix::put(const std::string &text, Deadline deadline) {
  return library_->run(deadline, [key = key_, text](Library &pmix) {
    Value entry;
    entry.type = kText;
    entry.data.text = const_cast<char *>(text.c_str()); // PMIx copies the text
    const int put = pmix.put(kForAll, key.c_str(), &entry);
    return put == Success ? pmix.commit() : put;
  });
}

Result<std::string> Pmix::get(Deadline deadline) {
  auto text = std::make_shared<std::string>();
  BRAID_TRY(library_->run(deadline, [=, key = key_](Library &pmix) {
    Process owner = pmix.self;
    owner.rank = 0;
    Info limit;
    std::strcpy(limit.key, "pmix.timeout");
    limit.value.type = kInteger;
    limit.value.data.number = kSecondsOfServer;
    for (;;) {
      Value *value = nullptr;
      const int code = pmix.get(&owner, key.c_str(), &limit, 1, &value);
      if (code == Success && value)
        *text = takeText(value);
      if ((code != NotFoundYet && code != TimedOutCode) || Clock::now() >= deadline)
        return code;
      std::this_thread::sleep_for(kPause);
    }
  }));
  if (text->empty())
    return badInput("expected PMIx to return a string that Braid has put, got another value");
  return *text;
}

} // namespace braid
