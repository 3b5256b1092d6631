//===- tools/bench/worker/channel.cpp - what the bench and a worker say -----------------------===//

#include "tools/bench/worker/channel.h"

#include "ir/failure.h"

#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace braid::tools {

using Json = nlohmann::json;

Status Channel::send(const Json &message) {
  const std::string line = message.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  for (size_t done = 0; done < line.size();) {
    const char *rest = line.data() + done;
    ssize_t count = ::send(out_.get(), rest, line.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno == ENOTSOCK)
      count = write(out_.get(), rest, line.size() - done);
    if (count < 0 && errno == EAGAIN) {
      pollfd entry{out_.get(), POLLOUT, 0};
      poll(&entry, 1, 100);
    } else if (count < 0 && errno != EINTR) {
      return peerFailed("expected a worker to read, got '{}'", std::strerror(errno));
    }
    done += count > 0 ? static_cast<size_t>(count) : 0;
  }
  return Status::ok();
}

/// What is no message is left out: a library may have printed it.
std::optional<Json> Channel::takeLine() {
  for (size_t end; (end = received_.find('\n')) != std::string::npos;) {
    Json message = Json::parse(received_.substr(0, end), nullptr, /*allow_exceptions=*/false);
    received_.erase(0, end + 1);
    if (message.is_object())
      return message;
  }
  return std::nullopt;
}

Result<std::optional<Json>> Channel::receive(std::chrono::milliseconds patience) {
  if (std::optional<Json> message = takeLine())
    return message;
  pollfd entry{in_.get(), POLLIN, 0};
  if (poll(&entry, 1, static_cast<int>(patience.count())) <= 0)
    return std::optional<Json>();
  char bytes[4096];
  ssize_t count = read(in_.get(), bytes, sizeof bytes);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
    return peerFailed("the worker has ended");
  received_.append(bytes, count > 0 ? static_cast<size_t>(count) : 0);
  return takeLine();
}

} // namespace braid::tools
