//===- backends/cpu/messages/socket_link.cpp - messages between processes ---------------------===//

#include "backends/cpu/messages/socket_link.h"

#include "backends/cpu/messages/mismatch.h"
#include "ir/failure.h"

#include <fmt/format.h>

#include <poll.h>

namespace braid {
namespace {

/// What is moved in one direction before the other one, and the other peers, have their turn.
constexpr size_t kMostWritten = size_t(4) << 20;
/// The job's host sees the end of a rank as well, and knows more of it: it may say so first.
constexpr std::chrono::milliseconds kAfterEnd{1000};

} // namespace

Status SocketLink::open(ControlPlane &control) {
  if (isOpen())
    return Status::ok();
  std::vector<std::unique_ptr<Carrier>> carriers = BRAID_TRY(connect_(control));
  lines_ = std::vector<Line>(carriers.size());
  for (size_t peer = 0; peer < carriers.size(); ++peer)
    lines_[peer].carrier = std::move(carriers[peer]);
  return Status::ok();
}

Result<Advance> SocketLink::advance(Exchange &exchange) {
  std::lock_guard lock(mutex_);
  bool hasMoved = !exchange.isKnown;
  if (!exchange.isKnown)
    start(exchange);
  for (int64_t peer = 0; peer < static_cast<int64_t>(lines_.size()); ++peer)
    if (lines_[static_cast<size_t>(peer)].isNeeded())
      hasMoved |= BRAID_TRY(advance(peer, exchange.tag));
  // Nobody else would send what a carrier has taken.
  const bool isSent = llvm::none_of(lines_, [](const Line &line) { return line.writes(); });
  if (exchange.isOver() && isSent)
    return Advance::IsOver;
  return hasMoved ? Advance::Moved : Advance::Waits;
}

void SocketLink::start(Exchange &exchange) {
  exchange.isKnown = true;
  for (Transfer &transfer : exchange.transfers) {
    Line &line = lines_[static_cast<size_t>(transfer.peer)];
    if (transfer.direction == Direction::Send) {
      line.sends.push_back(&transfer);
      continue;
    }
    line.in.expect(transfer);
    line.out.sayReady(transfer, exchange.tag);
  }
}

/// True if anything moved.
Result<bool> SocketLink::advance(int64_t peer, const Tag &tag) {
  Line &line = lines_[static_cast<size_t>(peer)];
  BRAID_TRY(meet(peer, tag)); // it may have been ready since an earlier exchange
  bool hasMoved = write(line);
  hasMoved |= BRAID_TRY(read(peer, tag));
  BRAID_TRY(meet(peer, tag));
  hasMoved |= write(line);
  BRAID_TRY(checkPeer(peer, tag));
  return hasMoved;
}

/// Sends for which the peer is ready may go.
Status SocketLink::meet(int64_t peer, const Tag &tag) {
  Line &line = lines_[static_cast<size_t>(peer)];
  std::deque<WireFrame> &ready = line.in.ready();
  while (!ready.empty() && !line.sends.empty()) {
    const WireFrame frame = ready.front();
    Transfer &send = *line.sends.front();
    const MessageSide receiver{peer, fmt::format("command {}, run {}", frame.command, frame.run),
                               static_cast<int64_t>(frame.messageBytes)};
    if (frame.number != send.number || frame.messageBytes != static_cast<uint64_t>(send.bytes))
      return mismatch({rank_, describe(tag), send.bytes}, receiver, send.number);
    ready.pop_front();
    line.sends.pop_front();
    line.out.send(send, tag);
  }
  return Status::ok();
}

bool SocketLink::write(Line &line) {
  size_t written = 0;
  while (line.writes() && written < kMostWritten) {
    const Outgoing::Pieces pieces = line.out.next();
    const Result<size_t> bytes = line.carrier->write(pieces.header, pieces.data);
    if (!bytes) {
      line.isBroken = true;
      end(line, bytes.status().message());
    }
    if (!bytes || *bytes == 0)
      break;
    line.out.take(*bytes);
    written += *bytes;
  }
  return written != 0;
}

Result<bool> SocketLink::read(int64_t peer, const Tag &tag) {
  Line &line = lines_[static_cast<size_t>(peer)];
  size_t got = 0;
  while (line.reads() && got < kMostWritten) {
    const llvm::MutableArrayRef<char> place = line.in.next();
    const Result<size_t> bytes = line.carrier->read(place);
    if (!bytes) {
      line.hasEnded = true;
      end(line, bytes.status().message());
    }
    if (!bytes || *bytes == 0)
      break;
    if (Status status = line.in.take(*bytes); !status.isOk())
      return Status(status.code(), fmt::format("messages from rank {} to rank {}, in {}: {}", peer,
                                               rank_, describe(tag), status.message()));
    got += *bytes;
  }
  return got != 0;
}

void SocketLink::end(Line &line, std::string why) {
  if (line.goneSince)
    return;
  line.goneSince = Clock::now();
  line.why = std::move(why);
}

/// What came before the end may be all that is needed.
Status SocketLink::checkPeer(int64_t peer, const Tag &tag) const {
  const Line &line = lines_[static_cast<size_t>(peer)];
  if (!line.goneSince || !line.isNeeded() || Clock::now() - *line.goneSince < kAfterEnd)
    return Status::ok();
  return peerFailed("rank {} has gone: rank {} waits for it in {}, and the connection that brings "
                    "its messages is of no more use ({})",
                    peer, rank_, describe(tag), line.why);
}

void SocketLink::sleep(const Exchange &, uint32_t, std::chrono::milliseconds slice) {
  std::vector<pollfd> sockets;
  {
    std::lock_guard lock(mutex_);
    for (const Line &line : lines_) {
      if (line.reads() && line.carrier->hasUnread())
        return;
      if (line.reads() || line.writes())
        sockets.push_back(
            {line.carrier->descriptor(),
             static_cast<short>((line.reads() ? POLLIN : 0) | (line.writes() ? POLLOUT : 0)), 0});
    }
  }
  poll(sockets.data(), sockets.size(), static_cast<int>(slice.count()));
}

} // namespace braid
