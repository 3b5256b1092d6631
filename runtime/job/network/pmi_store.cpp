//===- runtime/job/network/pmi_store.cpp ------------------------------------------------------===//

#include "runtime/job/network/pmi_store.h"

#include "ir/failure.h"
#include "ir/printable.h"

#include "llvm/ADT/StringExtras.h"

#include <thread>

#include <sys/socket.h>

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kLongestLine = 4096;
/// A launcher that has to answer a rank that is gone may fall over, so what was asked is waited for
/// a little longer than anybody has time.
constexpr milliseconds kForAnswer{2000};
/// Each look-up asks the launcher's one process for all ranks.
constexpr milliseconds kFirstPause{5}, kLongestPause{200};

std::string at(const std::map<std::string, std::string> &answer, const char *key) {
  const auto found = answer.find(key);
  return found == answer.end() ? "" : found->second;
}

/// Launchers that know no names say so in words: "not_implemented_yet", "command not implemented".
bool isNotImplemented(llvm::StringRef line) { return line.contains("implemented"); }

bool isRefused(const std::map<std::string, std::string> &answer) {
  const std::string code = at(answer, "rc"), info = at(answer, "info");
  return (!code.empty() && code != "0") || (!info.empty() && info != "ok");
}

} // namespace

std::map<std::string, std::string> parsePmiLine(llvm::StringRef line) {
  std::map<std::string, std::string> words;
  while (!line.empty()) {
    auto [word, rest] = line.split(' ');
    line = rest;
    const size_t equals = word.find('=');
    if (equals != llvm::StringRef::npos)
      words.emplace(word.take_front(equals).str(), word.drop_front(equals + 1).str());
  }
  return words;
}

Result<std::unique_ptr<PmiStore>> PmiStore::open(const Place &place, const Environment &environment,
                                                 Deadline deadline) {
  const std::string text = environment("PMI_FD").value_or("");
  int number = -1, isSocket = 0;
  socklen_t size = sizeof isSocket;
  if (text.empty())
    return unsupported("the launcher gives its ranks no connection (PMI_FD)");
  if (llvm::StringRef(text).getAsInteger(10, number) || number < 0)
    return badInput("expected PMI_FD to be a file descriptor, got '{}'", printable(text, 20));
  if (getsockopt(number, SOL_SOCKET, SO_TYPE, &isSocket, &size) != 0)
    return unsupported("expected PMI_FD={} to be a connection to the launcher, got none: a process "
                       "between it and the rank may have closed it",
                       number);
  FileDescriptor own = FileDescriptor::duplicate(number);
  if (!own.isValid())
    return unsupported("cannot duplicate PMI_FD={}: too many files are open", number);
  return openOver(ByteStream(std::move(own), "the launcher at PMI_FD=" + text), place.job,
                  deadline);
}

Result<std::unique_ptr<PmiStore>> PmiStore::openOver(ByteStream stream, const std::string &job,
                                                     Deadline deadline) {
  auto store = std::unique_ptr<PmiStore>(new PmiStore(std::move(stream), job));
  auto answer = store->ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline);
  if (!answer) {
    store->failure_ = answer.status();
    return answer.status();
  }
  if (isRefused(*answer)) {
    store->failure_ =
        unsupported("{} does not speak PMI-1: it answered version '{}'", store->stream_.whose(),
                    printable(at(*answer, "pmi_version"), 20));
    return store->failure_;
  }
  return store;
}

PmiStore::~PmiStore() {
  if (failure_.isOk())
    (void)ask("cmd=finalize", "finalize_ack", deadlineIn(kForAnswer));
}

Result<PmiStore::Answer> PmiStore::ask(const std::string &command, const char *answer,
                                       Deadline deadline) {
  auto failed = [&](const Status &status) {
    failure_ = status;
    return status;
  };
  BRAID_TRY(Status(failure_));
  if (Status sent = stream_.write(command + "\n", deadline); !sent.isOk())
    return failed(sent);
  Result<std::string> line =
      stream_.readLine(kLongestLine, std::max(deadline, deadlineIn(kForAnswer)));
  if (!line)
    return failed(line.status());
  Answer words = parsePmiLine(*line);
  if (at(words, "cmd") != answer)
    return failed(
        badInput("expected cmd={} of {}, got '{}'", answer, stream_.whose(), printable(*line, 60)));
  if (isNotImplemented(*line))
    return unsupported("{} publishes no names: it answered '{}'", stream_.whose(),
                       printable(*line, 60));
  return words;
}

Status PmiStore::put(const std::string &name, const std::string &value, Deadline deadline) {
  BRAID_TRY(checkStoreEntry(name, value));
  const Answer answer = BRAID_TRY(ask(fmt::format("cmd=publish_name service={} port={}",
                                                  storeKey(job_, name), escapeStoreValue(value)),
                                      "publish_result", deadline));
  if (isRefused(answer))
    return badInput("expected {} to publish {}, got '{}'", stream_.whose(), name,
                    printable(at(answer, "info") + at(answer, "msg"), 60));
  return Status::ok();
}

Result<std::optional<std::string>> PmiStore::lookUp(const std::string &key, Deadline deadline) {
  const Answer answer = BRAID_TRY(ask("cmd=lookup_name service=" + key, "lookup_result", deadline));
  const auto port = answer.find("port");
  if (isRefused(answer) || port == answer.end())
    return std::optional<std::string>();
  std::optional<std::string> value = unescapeStoreValue(port->second);
  if (!value || value->size() > kMaxStoreValue)
    return badInput("expected a value that Braid has published of {}, got '{}'", stream_.whose(),
                    printable(port->second, 60));
  return value;
}

Result<std::string> PmiStore::get(const std::string &name, Deadline deadline) {
  BRAID_TRY(checkStoreEntry(name, ""));
  const std::string key = storeKey(job_, name);
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    if (std::optional<std::string> value = BRAID_TRY(lookUp(key, deadline)))
      return *value;
    if (Clock::now() >= deadline)
      return timedOut("nobody has published {} with {} in time", name, stream_.whose());
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + pause));
  }
}

} // namespace braid
