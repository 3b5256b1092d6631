//===- runtime/job/bootstrap/client.cpp -------------------------------------------------------===//
#include "runtime/job/bootstrap/client.h"

#include "ir/failure.h"

#include <thread>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace braid {

using namespace std::chrono_literals;
namespace endian = llvm::support::endian;

namespace {
/// How long a blocked call sleeps before it looks at the job's mark by itself.
constexpr auto kSlice = 20ms;
/// Answers to wants are numbered apart from all-gathers, since every rank has its own wants.
constexpr uint32_t kWantBit = 1u << 31;
/// Being thrown out by a crowd of unauthenticated peers is worth another try, but not without end.
constexpr int kHelloAttempts = 20;
constexpr size_t kHelloFields = 4 + 8 + 8;
/// Who is not read from for so long does not hear that it disconnects.
constexpr auto kDisconnectTime = 500ms;

/// A process that dies closes its connections first. For so long its end is waited for then.
constexpr auto kEndOfProcess = 1s;

/// For messages.
std::string nameAttempt(const Connection &connection, const std::string &path, int64_t rank) {
  const Result<PeerIdentity> host = connection.peer();
  const std::string process =
      host && host->pid != 0 ? fmt::format(", where process {} listens", host->pid) : "";
  return fmt::format("joining as rank {} at '{}'{}", rank, path, process);
}

/// One attempt to say hello: the answer to it.
Result<Received> sayHello(Connection &connection, const Frame &hello, Deadline deadline) {
  PeerIdentity host = BRAID_TRY(connection.peer());
  if (host.uid != geteuid())
    return peerFailed("expected a host of user {}, got one of user {}", geteuid(), host.uid);
  BRAID_TRY(connection.send(hello, deadline));
  return connection.receive(deadline);
}

Status checkWelcome(const Received &answer) {
  if (answer.frame.kind == FrameKind::Refused)
    return {StatusCode::BadInput, answer.frame.body};
  if (answer.frame.kind != FrameKind::Welcome || !answer.frame.hasDescriptor)
    return peerFailed("expected a welcome from the host, got another message");
  return Status::ok();
}
} // namespace

std::string ClientHello::encode() const {
  std::string body;
  append(body, kProtocolVersion);
  append(body, rank);
  append(body, ranks);
  return body += job;
}

Result<ClientHello> ClientHello::decode(llvm::StringRef body) {
  if (body.size() < 4)
    return badInput("expected a version, got the end of the message");
  if (uint32_t version = endian::read32le(body.data()); version != kProtocolVersion)
    return badInput("expected version {} of the protocol, got {}", kProtocolVersion, version);
  if (body.size() < kHelloFields)
    return badInput("expected a rank and a number of ranks, got the end of the message");
  if (body.size() > kHelloFields + kMaxJobBytes)
    return badInput("expected the key of a job of at most {} bytes, got a longer one",
                    kMaxJobBytes);
  ClientHello hello;
  hello.rank = static_cast<int64_t>(endian::read64le(body.data() + 4));
  hello.ranks = static_cast<int64_t>(endian::read64le(body.data() + 12));
  hello.job = body.drop_front(kHelloFields).str();
  if (hello.rank < 0 || hello.rank >= hello.ranks)
    return badInput("expected a rank below the number of ranks, got rank {} of {}", hello.rank,
                    hello.ranks);
  return hello;
}

Result<std::unique_ptr<Client>> Client::join(const std::string &path, const ClientHello &hello,
                                             Deadline deadline) {
  if (hello.job.size() > kMaxJobBytes)
    return badInput("expected the key of a job of at most {} bytes, got a longer one",
                    kMaxJobBytes);
  Frame frame{.kind = FrameKind::Hello, .body = hello.encode()};
  for (int attempt = 1;; ++attempt) {
    Connection connection = BRAID_TRY(Connection::connect(path, deadline, kMaxBody));
    Result<Received> answer = sayHello(connection, frame, deadline);
    if (!answer && answer.status().code() == StatusCode::PeerFailed && attempt < kHelloAttempts) {
      std::this_thread::sleep_for(1ms * attempt);
      continue;
    }
    if (!answer)
      return answer.status().annotated(nameAttempt(connection, path, hello.rank));
    BRAID_TRY(checkWelcome(*answer));
    JobMemory memory = BRAID_TRY(JobMemory::map(std::move(answer->descriptor), hello.ranks));
    std::unique_ptr<Client> client(new Client(std::move(connection), hello, std::move(memory)));
    client->countArrival();
    return client;
  }
}

Client::Client(Connection connection, ClientHello hello, JobMemory memory)
    : connection_(std::move(connection)), hello_(std::move(hello)), memory_(std::move(memory)),
      host_(connection_.openPeer()), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

JobCause Client::hostIsGone() const {
  Result<PeerIdentity> host = connection_.peer(); // as it was when they connected
  const HostPlace place = memory_.place();
  const int64_t first = place.host * memory_.ranksPerHost(); // hosts the meeting, if a rank does
  uint32_t pid = memory_.slot(first).pid.load(std::memory_order_relaxed);
  if (!host || host->pid == 0 || static_cast<uint32_t>(host->pid) != pid)
    return {peerFailed("the launcher is gone"), -1};
  return {peerFailed("rank {}, which hosted the meeting{}, is gone", first,
                     place.hosts == 1 ? "" : fmt::format(" of host {}", place.host)),
          first};
}

bool Client::waitForEndOfHost() {
  const Deadline deadline = deadlineIn(kEndOfProcess);
  pollfd entry{host_.get(), POLLIN, 0};
  const auto knowsWhy = [this] {
    std::lock_guard lock(mutex_);
    return !failure().isOk();
  };
  while (host_.isValid() && !knowsWhy() && std::chrono::steady_clock::now() < deadline)
    if (poll(&entry, 1, kSlice.count()) > 0)
      return true;
  return false;
}

Client::~Client() { disconnect(); }

Status Client::fail(const Status &cause) {
  memory_.abort({cause, rank()});
  memory_.awaitDecision();
  const std::optional<JobCause> first = memory_.cause();
  return first ? first->status : cause;
}

// -- The host thread. --

/// Why a call ends without what it waited for. mutex_ is held.
Status Client::failure() {
  if (std::optional<JobCause> cause = memory_.cause())
    return cause->status;
  return hostFailure_;
}

/// Why no more can be sent, if `sent` or the job says so.
Status Client::stateAfter(const Result<size_t> &sent) {
  const bool isGone = !sent && sent.status().code() == StatusCode::PeerFailed;
  const bool isHostDead = isGone && waitForEndOfHost();
  std::lock_guard lock(mutex_);
  if (hostFailure_.isOk() && isHostDead)
    hostFailure_ = hostIsGone().status; // as the watchdog finds
  else if (!sent && hostFailure_.isOk())
    hostFailure_ = sent.status().annotated("rank " + std::to_string(rank()) +
                                           " cannot reach the host of the job");
  return failure();
}

Status Client::send(const Frame &frame, int descriptor) {
  std::string bytes = encode(frame);
  llvm::StringRef rest = bytes;
  while (!rest.empty()) {
    Result<size_t> sent = connection_.sendAvailable(rest, descriptor);
    size_t count = sent ? *sent : 0;
    rest = rest.drop_front(count);
    if (Status status = stateAfter(sent); !status.isOk()) {
      isCutOff_ = isCutOff_ || (!rest.empty() && rest.size() < bytes.size());
      return status;
    }
    if (count > 0) {
      descriptor = -1;
      continue;
    }
    pollfd entry{connection_.descriptor(), POLLOUT, 0};
    poll(&entry, 1, kSlice.count());
  }
  return Status::ok();
}

/// The rank's host thread has got something done.
void Client::countArrival() {
  memory_.slot(rank()).arrivals.fetch_add(1, std::memory_order_relaxed);
}

Result<Received> Client::waitFor(FrameKind kind, uint32_t sequence) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (memory_.isAborted())
      return failure();
    if (auto found = answers_.find(sequence); found != answers_.end()) {
      Received answer = std::move(found->second);
      answers_.erase(found);
      countArrival();
      if (answer.frame.kind == kind)
        return answer;
      return internalError("expected another answer from the host of the job");
    }
    if (!hostFailure_.isOk())
      return failure();
    changed_.wait_for(lock, kSlice);
  }
}

/// The answer, when all ranks have come.
Result<Received> Client::meet(FrameKind kind, std::string body) {
  countArrival();
  uint32_t sequence = ++gathers_;
  std::atomic<uint32_t> &isSpeaking = memory_.slot(rank()).isSpeaking;
  isSpeaking.store(1, std::memory_order_relaxed);
  Status sent = send({.kind = kind, .sequence = sequence, .body = std::move(body)});
  isSpeaking.store(0, std::memory_order_relaxed);
  if (!sent.isOk())
    return sent;
  return waitFor(FrameKind::Gathered, sequence);
}

Result<std::vector<std::string>> Client::allGather(const std::string &mine) {
  if (mine.size() > kMaxBody)
    return badInput("expected at most {} bytes for the other ranks, got {}", kMaxBody, mine.size());
  Received answer = BRAID_TRY(meet(FrameKind::Gather, mine));
  Result<std::vector<std::string>> parts = decodeParts(answer.frame.body);
  if (parts && static_cast<int64_t>(parts->size()) != ranks())
    return internalError("expected {} parts of an all-gather, got {}", ranks(), parts->size());
  return parts;
}

Status Client::meetAtCommit(uint32_t step) {
  std::string body;
  append(body, step);
  return meet(FrameKind::Commit, std::move(body)).status();
}

Status Client::offer(const std::string &name, int descriptor) {
  return send({.kind = FrameKind::Offer, .hasDescriptor = true, .body = name}, descriptor);
}

Result<FileDescriptor> Client::want(int64_t rank, const std::string &name) {
  uint32_t sequence = kWantBit | ++wants_;
  std::string body;
  append(body, rank);
  body += name;
  BRAID_TRY(send({.kind = FrameKind::Want, .sequence = sequence, .body = body}));
  Received answer = BRAID_TRY(waitFor(FrameKind::Descriptor, sequence));
  if (!answer.descriptor.isValid())
    return Status(StatusCode::BadInput, answer.frame.body);
  return std::move(answer.descriptor);
}

void Client::disconnect() {
  if (std::exchange(saidDisconnect_, true) || isCutOff_)
    return;
  // If it does not get through, the host takes the end of the connection for a death: it is gone
  // itself, or stands still, or the job has failed.
  (void)connection_.send({.kind = FrameKind::Disconnect}, deadlineIn(kDisconnectTime));
}

// -- The watchdog. --

bool Client::watch(std::chrono::milliseconds patience) {
  pollfd entries[] = {
      {connection_.descriptor(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {host_.get(), POLLIN, 0}};
  poll(entries, 3, static_cast<int>(patience.count()));
  if (entries[1].revents) {
    uint64_t count;
    (void)!read(wake_.get(), &count, sizeof count);
  }
  std::vector<Received> frames;
  Status status;
  const bool isDead = entries[2].revents != 0; // and a child may keep the connection open
  if (entries[0].revents || isDead)
    status = connection_.receiveAvailable(frames);
  if (status.isOk() && isDead)
    status = peerFailed("the process of the host is dead");
  deliver(std::move(frames), status);
  return status.isOk();
}

void Client::deliver(std::vector<Received> frames, const Status &status) {
  bool hasNews = !frames.empty() || !status.isOk() || memory_.isAborted();
  if (!hasNews)
    return;
  std::lock_guard lock(mutex_);
  for (Received &received : frames) {
    uint32_t sequence = received.frame.sequence;
    answers_.insert_or_assign(sequence, std::move(received));
  }
  if (!status.isOk() && hostFailure_.isOk())
    hostFailure_ = hostIsGone().status;
  changed_.notify_all();
}

void Client::wakeWatch() {
  uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

} // namespace braid
