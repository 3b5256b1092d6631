//===- tools/bench/worker/torch_worker.cpp - the process that times rows of PyTorch -----------===//

#include "tools/bench/worker/torch_worker.h"

#include "ir/failure.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <string_view>

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace braid::tools {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

/// Importing PyTorch, and connecting its ranks.
constexpr milliseconds kStartUp{180000};
constexpr int kMostFailures = 3;

/// Beside this program when it is installed, or in the tree that it was built in.
std::string findScript() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  std::string program(path, length > 0 ? static_cast<size_t>(length) : 0);
  std::string folder = program.substr(0, program.rfind('/'));
  for (const char *place : {"/../share/braid/torch_rows.py", "/../../../tools/torch_rows.py"})
    if (access((folder + place).c_str(), R_OK) == 0)
      return folder + place;
  return "";
}

/// Ours, but for what would make PyTorch load the libraries that we were told to load, or take
/// itself for a rank of our job. NVLink multicast is left off, unless somebody wants it: not every
/// machine that has it lets it be used.
std::vector<std::string> workersEnvironment() {
  std::vector<std::string> texts;
  bool hasMulticast = false, hasNvls = false;
  for (char **entry = environ; *entry; ++entry) {
    const std::string_view text(*entry), name = text.substr(0, text.find('='));
    // The last one is ours: see backends/cpu/gemm.cpp.
    if (name == "LD_LIBRARY_PATH" || name.starts_with("BRAID_") || name == "OPENBLAS_NUM_THREADS")
      continue;
    hasMulticast |= name == "TORCH_SYMM_MEM_DISABLE_MULTICAST";
    hasNvls |= name == "NCCL_NVLS_ENABLE";
    texts.emplace_back(text);
  }
  if (!hasMulticast)
    texts.push_back("TORCH_SYMM_MEM_DISABLE_MULTICAST=1");
  if (!hasNvls)
    texts.push_back("NCCL_NVLS_ENABLE=0");
  return texts;
}

std::vector<char *> pointersTo(std::vector<std::string> &texts) {
  std::vector<char *> pointers;
  for (std::string &text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// A process of its own group whose standard input and output are `end`.
int spawn(std::vector<std::string> arguments, int end, pid_t &pid) {
  std::vector<std::string> environment = workersEnvironment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, end, 0);
  posix_spawn_file_actions_adddup2(&actions, end, 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  int error = posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes,
                           pointersTo(arguments).data(), pointersTo(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

} // namespace

Status TorchWorker::launch() {
  if (pid_ != 0)
    return Status::ok();
  if (failures_ >= kMostFailures)
    return lastFailure_;
  std::string script = flags_.torchRows.empty() ? findScript() : flags_.torchRows;
  if (script.empty())
    return giveUp(unsupported("expected torch_rows.py beside braid, got none"));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return giveUp(unsupported("expected a pair of sockets"));
  FileDescriptor ours(ends[0]), theirs(ends[1]);
  const char *device = flags_.usesGpus() ? "cuda" : "cpu";
  int error = spawn({flags_.python, script, "--operation", flags_.operation.name, "--ranks",
                     std::to_string(flags_.ranks), "--dtype", flags_.dtype, "--device", device,
                     "--timeout", std::to_string((flags_.timeoutMs + 999) / 1000), "--board",
                     fmt::format("{}/board.{}", folder_, failures_)},
                    theirs.get(), pid_);
  if (error != 0) {
    pid_ = 0;
    return giveUp(
        badInput("expected --python {} to start, got '{}'", flags_.python, std::strerror(error)));
  }
  FileDescriptor out = FileDescriptor::duplicate(ours.get());
  channel_ = Channel(std::move(ours), std::move(out));
  return Status::ok();
}

Status TorchWorker::start() {
  if (isReady_)
    return Status::ok();
  BRAID_TRY(launch());
  const milliseconds limit = std::chrono::seconds(flags_.timeLimit);
  Result<Json> ready = receive(0, flags_.timeLimit > 0 ? std::min(kStartUp, limit) : kStartUp);
  if (!ready && ready.status().code() == StatusCode::TimedOut)
    failures_ = kMostFailures - 1; // the next one would hang as well
  if (!ready)
    return giveUp(ready.status());
  if (auto failure = ready->find("failure"); failure != ready->end() && failure->is_string())
    return giveUp(Status(StatusCode::Unsupported, failure->get<std::string>()));
  if (auto device = ready->find("device"); device != ready->end() && device->is_string())
    device_ = device->get<std::string>();
  isReady_ = true;
  return Status::ok();
}

Result<Answer> TorchWorker::ask(Json request) {
  const uint64_t id = ++lastId_;
  request["id"] = id;
  const auto warmUpTime = static_cast<int64_t>(request.at("warm_up_us").get<double>() / 1e3);
  if (Status status = channel_.send(request); !status.isOk())
    return giveUp(status);
  // It has a limit of its own for each of the few steps of a row. Settling, of runs and of bursts,
  // is none of them; what takes so long are its runs, and between short ones as much time passes
  // again.
  Result<Json> message = receive(id, milliseconds(3 * flags_.timeoutMs + 4 * warmUpTime));
  if (!message)
    return giveUp(message.status());
  Result<Answer> answer = Answer::from(*message);
  if (answer && message->contains("over"))
    return giveUp(Status(StatusCode::PeerFailed, answer->failure));
  return answer ? std::move(answer) : Result<Answer>(giveUp(answer.status()));
}

Result<Json> TorchWorker::receive(uint64_t id, milliseconds patience) {
  const Deadline deadline = deadlineIn(patience);
  while (std::chrono::steady_clock::now() < deadline) {
    std::optional<Json> message = BRAID_TRY(channel_.receive(milliseconds(100)));
    if (isCancelled_())
      return peerFailed("interrupted");
    if (message && answers(*message, id))
      return *message;
  }
  return timedOut("no answer within {} s", patience.count() / 1000);
}

Status TorchWorker::giveUp(const Status &cause) {
  kill();
  ++failures_;
  lastFailure_ = Status(cause.code(), "PyTorch: " + cause.message());
  return lastFailure_;
}

void TorchWorker::kill() {
  isReady_ = false;
  channel_ = Channel();
  if (pid_ == 0)
    return;
  ::kill(-pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

/// It is asked to, and gets a moment for it.
void TorchWorker::end() {
  if (isReady_ && channel_.send({{"id", ++lastId_}, {"end", true}}).isOk()) {
    const Deadline deadline = deadlineIn(milliseconds(5000));
    while (std::chrono::steady_clock::now() < deadline && channel_.receive(milliseconds(100))) {
    }
  }
  kill();
}

} // namespace braid::tools
