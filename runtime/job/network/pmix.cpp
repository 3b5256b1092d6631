//===- runtime/job/network/pmix.cpp - publishes the address of the hosts' store ---------------===//

#include "runtime/job/network/pmix.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/start_thread.h"
#include "runtime/job/bootstrap/store.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The subset of the PMIx 2 API that is used. Types that have grown since then are used only in
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

/// The server's time limit for an answer. Values that are not available yet are requested again.
constexpr int kSecondsOfServer = 1;
/// A rank that leaves with a pending request cannot finalize, and mpirun treats that as a crash. So
/// the answer is awaited for a little longer than any deadline.
constexpr milliseconds kForLastAnswer{3000}, kPause{20};

} // namespace

/// The PMIx library, called by one thread at a time.
class PmixLibrary : public std::enable_shared_from_this<PmixLibrary> {
public:
  int (*init)(Process *, Info *, size_t) = nullptr;
  int (*finalize)(const Info *, size_t) = nullptr;
  int (*put)(uint8_t, const char *, Value *) = nullptr;
  int (*commit)() = nullptr;
  int (*get)(const Process *, const char *, const Info *, size_t, Value **) = nullptr;
  const char *(*explain)(int) = nullptr;
  Process self; ///< written by init(), possibly after its deadline

  static Result<std::shared_ptr<PmixLibrary>> open(const Environment &environment);

  /// Returns TimedOut soon after the deadline, and for all later calls. Returns PeerFailed, with
  /// PMIx's reason, if `call` returns another error code.
  Status run(Deadline deadline, std::function<int(PmixLibrary &)> call);

private:
  bool isStuck_ = false; ///< a call has not returned
};

/// The library is never unloaded, because it may have started threads.
Result<std::shared_ptr<PmixLibrary>> PmixLibrary::open(const Environment &environment) {
  const std::string file = environment("BRAID_PMIX_LIBRARY").value_or("libpmix.so.2");
  void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return unsupported("PMIx: {}; BRAID_PMIX_LIBRARY may name libpmix.so.2 of the launcher",
                       reason ? reason : file + " cannot be opened");
  }
  auto library = std::make_shared<PmixLibrary>();
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

Status PmixLibrary::run(Deadline deadline, std::function<int(PmixLibrary &)> call) {
  std::optional<int> code;
  if (!isStuck_)
    code = callWithin<int>(std::max(deadline, deadlineIn(kForLastAnswer)), "calling PMIx",
                           [call, library = shared_from_this()] { return call(*library); });
  isStuck_ = !code;
  if (!code || *code == NotFoundYet || *code == TimedOutCode)
    return timedOut("PMIx's server did not answer in time");
  if (*code == Success)
    return Status::ok();
  const char *text = explain ? explain(*code) : "an error";
  return peerFailed("expected an answer of PMIx's server, got: {} ({})", text, *code);
}

Result<std::unique_ptr<Pmix>> Pmix::open(const Place &place, const Environment &environment,
                                         Deadline deadline) {
  auto library = BRAID_TRY(PmixLibrary::open(environment));
  const Status begun =
      library->run(deadline, [](PmixLibrary &pmix) { return pmix.init(&pmix.self, nullptr, 0); });
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
                      [](PmixLibrary &pmix) { return pmix.finalize(nullptr, 0); });
}

Status Pmix::put(const std::string &text, Deadline deadline) {
  return library_->run(deadline, [key = key_, text](PmixLibrary &pmix) {
    Value entry;
    entry.type = kText;
    entry.data.text = const_cast<char *>(text.c_str()); // it is copied
    const int put = pmix.put(kForAll, key.c_str(), &entry);
    return put == Success ? pmix.commit() : put;
  });
}

namespace {

/// Requests the text once. `text` remains empty if the answer is not a text of at most kLongest
/// characters.
int getOnce(PmixLibrary &pmix, const std::string &key, std::string &text) {
  Process owner = pmix.self;
  owner.rank = 0;
  Info limit;
  std::strcpy(limit.key, "pmix.timeout");
  limit.value.type = kInteger;
  limit.value.data.number = kSecondsOfServer;
  Value *value = nullptr;
  const int code = pmix.get(&owner, key.c_str(), &limit, 1, &value);
  if (code != Success || !value)
    return code == Success ? int(NotFoundYet) : code;
  constexpr size_t kLongest = 300;
  if (value->type == kText && value->data.text) {
    const size_t size = strnlen(value->data.text, kLongest + 1);
    text.assign(value->data.text, size <= kLongest ? size : 0);
    std::free(value->data.text); // as PMIX_VALUE_RELEASE does
  }
  std::free(value);
  return code;
}

} // namespace

Result<std::string> Pmix::get(Deadline deadline) {
  auto text = std::make_shared<std::string>();
  BRAID_TRY(library_->run(deadline, [=, key = key_](PmixLibrary &pmix) {
    for (;;) {
      const int code = getOnce(pmix, key, *text);
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
