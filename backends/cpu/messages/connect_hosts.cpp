//===- backends/cpu/messages/connect_hosts.cpp ------------------------------------------------===//

#include "backends/cpu/messages/connect_hosts.h"

#include "ir/failure.h"
#include "runtime/job/network/acceptor.h"
#include "runtime/job/network/secret.h"

#include <algorithm>
#include <thread>

#include <poll.h>

namespace braid {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Carriers = std::vector<std::unique_ptr<Carrier>>;

constexpr const char *kContext = "messages of ranks";
constexpr size_t kKeyBytes = 32;
/// For the first word of a peer, which answers as soon as it has got round to it.
constexpr auto kForAttempt = 500ms;
/// For its second word. Whoever goes away before that may have been let in, as the last one, and
/// then nobody is there to be asked again.
constexpr auto kToBeLetIn = 10s;
/// How often a blocked rank looks whether the job has been aborted.
constexpr auto kSlice = 20ms;

/// Where a rank listens, and the job's key, if the rank is 0.
std::string encodePlace(const TcpAddress &at, const std::string &key) {
  std::string text;
  append(text, at.port);
  append(text, static_cast<uint32_t>(key.size()));
  return text + key + at.host;
}

struct Listening {
  TcpAddress at;
  std::string key;
};

Result<Listening> decodePlace(llvm::StringRef text) {
  const auto wrong = badInput("expected where a rank listens, got {} bytes", text.size());
  if (text.size() < 6)
    return wrong;
  Listening place;
  place.at.port = llvm::support::endian::read16le(text.data());
  const uint32_t keyBytes = llvm::support::endian::read32le(text.data() + 2);
  if (keyBytes > kKeyBytes || text.size() < 6 + keyBytes)
    return wrong;
  place.key = text.substr(6, keyBytes).str();
  place.at.host = text.drop_front(6 + keyBytes).str();
  return place;
}

/// Connects one rank to those of other hosts: it asks the lower ones, and is asked by the higher
/// ones. Rank 0 only accepts, and each rank accepts after it has asked, so that all come to an end.
class Connector {
public:
  Connector(ProcessGroup &group, Carriers &carriers, TcpListener listener, std::string key)
      : group_(group), carriers_(carriers), acceptor_(std::move(listener), key, kContext),
        key_(std::move(key)), deadline_(deadlineIn(group.timeout())) {}

  Status askLower(const std::vector<Listening> &places);
  Status acceptHigher();

private:
  bool isElsewhere(int64_t rank) const { return !group_.memory().isHere(rank); }
  bool isComplete() const;
  void welcome(Acceptor::AuthenticatedPeer authenticated);

  ProcessGroup &group_;
  Carriers &carriers_;
  Acceptor acceptor_;
  const std::string key_;
  const Deadline deadline_;
};

/// Unauthenticated peers may keep the other one busy at that time.
Status Connector::askLower(const std::vector<Listening> &places) {
  for (int64_t peer = 0; peer < group_.rank(); ++peer)
    while (isElsewhere(peer) && !carriers_[static_cast<size_t>(peer)]) {
      BRAID_TRY(group_.failure());
      const TcpAddress &at = places[static_cast<size_t>(peer)].at;
      auto stream = connectAuthenticated(at, fmt::format("rank {} at {}", peer, textOf(at)), key_,
                                         kContext, static_cast<uint32_t>(group_.rank()),
                                         std::min(deadline_, deadlineIn(kForAttempt)),
                                         std::min(deadline_, deadlineIn(kToBeLetIn)));
      if (stream)
        carriers_[static_cast<size_t>(peer)] = carrySealed(std::move(*stream));
      else if (Clock::now() >= deadline_)
        return stream.status().annotated(fmt::format("rank {}", group_.rank()));
      else
        std::this_thread::sleep_for(kSlice);
    }
  return Status::ok();
}

bool Connector::isComplete() const {
  for (int64_t peer = 0; peer < group_.size(); ++peer)
    if (isElsewhere(peer) && !carriers_[static_cast<size_t>(peer)])
      return false;
  return true;
}

Status Connector::acceptHigher() {
  while (!isComplete()) {
    BRAID_TRY(group_.failure());
    if (Clock::now() >= deadline_)
      return timedOut("rank {}: not all ranks of other hosts have connected for messages in time",
                      group_.rank());
    std::vector<pollfd> events;
    acceptor_.addDescriptors(events);
    poll(events.data(), events.size(), static_cast<int>(kSlice / 1ms));
    for (Acceptor::AuthenticatedPeer &peer : acceptor_.serve(events))
      welcome(std::move(peer));
  }
  return Status::ok();
}

void Connector::welcome(Acceptor::AuthenticatedPeer authenticated) {
  const int64_t peer = authenticated.number;
  if (peer > group_.rank() && peer < group_.size() && isElsewhere(peer))
    carriers_[static_cast<size_t>(peer)] = carrySealed(std::move(authenticated.stream));
}

} // namespace

Status connectHosts(ProcessGroup &group, Carriers &carriers) {
  TcpListener listener =
      BRAID_TRY(listenAt({group.memory().place().address, 0}, deadlineIn(std::chrono::seconds(2))));
  const std::string drawn = group.rank() == 0 ? randomBytes(kKeyBytes) : "";
  const auto texts = BRAID_TRY(group.allGather(encodePlace(listener.address, drawn)));
  std::vector<Listening> places;
  for (const std::string &text : texts)
    places.push_back(BRAID_TRY(decodePlace(text)));
  const std::string key = places.front().key;
  if (key.size() != kKeyBytes)
    return badInput("expected rank 0 to draw a key of {} bytes, got {}", kKeyBytes, key.size());
  Connector connector(group, carriers, std::move(listener), key);
  BRAID_TRY(connector.askLower(places));
  return connector.acceptHigher();
}

} // namespace braid
