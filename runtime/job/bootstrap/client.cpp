//===- runtime/job/bootstrap/client.cpp -------------------------------------------------------===//
#include "runtime/job/bootstrap/client.h"

#include "ir/failure.h"
#include "runtime/job/bootstrap/store.h"

#include "llvm/ADT/ScopeExit.h"

#include <fmt/format.h>

#include <thread>

#include <poll.h>
#include <unistd.h>

namespace braid {

using namespace std::chrono_literals;

namespace {
/// The interval at which a blocked call checks whether the job has failed.
constexpr auto kSlice = 20ms;
/// The time limit for the watchdog to find out why a connection to the host failed.
constexpr auto kForCause = 1000ms;
/// Distinguishes a rank from other peers that connect and send two numbers.
constexpr llvm::StringLiteral kHello = "braid rank ";
} // namespace

std::string ClientHello::encode() const {
  return fmt::format("{}{} {}", kHello.str(), rank, ranks);
}

Result<ClientHello> ClientHello::decode(llvm::StringRef text) {
  const bool isHello = text.consume_front(kHello);
  const auto [rank, ranks] = text.split(' ');
  ClientHello hello;
  if (!isHello || rank.getAsInteger(10, hello.rank) || ranks.getAsInteger(10, hello.ranks) ||
      hello.rank < 0 || hello.rank >= hello.ranks)
    return badInput("malformed message: expected a rank below the number of ranks");
  return hello;
}

std::string nameOfJob(const std::string &job) {
  return fmt::format("braid-{}-{}", geteuid(), digestOf(job));
}

Result<std::unique_ptr<Client>> Client::join(const std::string &name, const ClientHello &hello,
                                             Deadline deadline) {
  Connection connection = BRAID_TRY(Connection::connect(name, deadline));
  const ucred host = connection.peer();
  if (host.uid != geteuid())
    return peerFailed("expected a process of user {} to listen on '@{}', got one of user {}",
                      geteuid(), name, host.uid);
  BRAID_TRY(connection.send(hello.encode()));
  Result<Message> answer = connection.receive(deadline);
  if (!answer)
    return answer.status().annotated(fmt::format(
        "joining as rank {} at '@{}', where process {} is listening", hello.rank, name, host.pid));
  if (answer->text.front() == 'R')
    return Status(StatusCode::BadInput, answer->text.substr(1));
  if (answer->text != "W" || !answer->descriptor.isValid())
    return peerFailed("the process that hosts the job sent an unexpected reply");
  JobMemory memory = BRAID_TRY(JobMemory::map(std::move(answer->descriptor), hello.ranks));
  return std::unique_ptr<Client>(new Client(std::move(connection), hello, std::move(memory)));
}

Result<std::unique_ptr<Client>> Client::find(const ClientHello &hello, Deadline deadline) {
  const std::string name = nameOfJob(hello.job);
  for (;;) {
    auto client = join(name, hello, deadline);
    if (client.status().code() != StatusCode::PeerFailed)
      return client;
    if (std::chrono::steady_clock::now() >= deadline)
      return timedOut("expected the first rank of job '{}' to listen at '@{}', but no process is "
                      "listening there",
                      hello.job, name);
    std::this_thread::sleep_for(5ms);
  }
}

Client::Client(Connection connection, ClientHello hello, JobMemory memory)
    : connection_(std::move(connection)), hello_(std::move(hello)),
      memory_(std::make_shared<JobMemory>(std::move(memory))), host_(connection_.openPeer()) {}

Client::~Client() { disconnect(); }

// -- The host. --

bool Client::isHostGone() const {
  // A child process of a dead host may keep the connection open, so the process is checked too.
  pollfd process{host_.get(), POLLIN, 0};
  return connection_.hasEnded() || poll(&process, 1, 0) > 0;
}

void Client::abortIfHostIsGone() {
  if (!isHostGone())
    return;
  const auto host = static_cast<uint32_t>(connection_.peer().pid); // at connection time
  // The first rank of this host hosts the job, unless a launcher does.
  const int64_t first = memory_->ranksOf(memory_->host()).first;
  if (host == 0 || host != memory_->slot(first).pid.load(std::memory_order_relaxed))
    memory_->abort({peerFailed("the launcher is gone"), -1});
  else
    memory_->abort(
        {peerFailed("rank {}, which hosted the job{}, is gone", first,
                    memory_->hosts() == 1 ? "" : fmt::format(" of host {}", memory_->host())),
         first});
  memory_->decideHere();
}

/// Returns why the connection failed: the cause of an abort if there was one, otherwise `status`.
Status Client::lost(const Status &status) {
  for (const Deadline end = deadlineIn(kForCause);
       !memory_->isAborted() && std::chrono::steady_clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  BRAID_TRY(memory_->failure());
  return status.annotated(
      fmt::format("rank {} cannot reach the process that hosts the job", rank()));
}

/// Sends a message and waits for the reply, even to an offer, because peers may request the offered
/// descriptor as soon as this function has returned. If the host never replies, for example because
/// it has been stopped, the watchdog aborts the job.
Result<Message> Client::ask(const std::string &text, int descriptor) {
  BRAID_TRY(memory_->failure());
  RankSlot &slot = memory_->slot(rank());
  slot.setActivity(HostActivity::AskingHost);
  const auto atEnd = llvm::make_scope_exit([&slot] { slot.setActivity(HostActivity::OwnCode); });
  if (const Status sent = connection_.send(text, descriptor); !sent.isOk())
    return lost(sent);
  for (;;) {
    Result<Message> answer = connection_.receive(deadlineIn(kSlice));
    BRAID_TRY(memory_->failure());
    if (!answer && answer.status().code() == StatusCode::TimedOut)
      continue;
    return answer ? std::move(answer) : lost(answer.status());
  }
}

Status Client::offer(const std::string &name, int descriptor) {
  return ask("O" + name, descriptor).status();
}

Result<FileDescriptor> Client::want(int64_t rank, const std::string &name) {
  Message answer = BRAID_TRY(ask(fmt::format("G{} {}", rank, name), -1));
  if (answer.descriptor.isValid())
    return std::move(answer.descriptor);
  return badInput("rank {} has not shared a file descriptor named '{}'", rank, name);
}

void Client::disconnect() {
  if (std::exchange(saidDisconnect_, true))
    return;
  memory_->slot(rank()).state.store(RankState::Left, std::memory_order_seq_cst);
  memory_->wake();
  // A child process may keep the connection open, so closing the descriptor is not enough.
  shutdown(connection_.descriptor(), SHUT_RDWR);
}

} // namespace braid
