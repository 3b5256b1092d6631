//===- runtime/job/bootstrap/frame.cpp --------------------------------------------------------===//
#include "runtime/job/bootstrap/frame.h"

#include "ir/failure.h"

#include <cstring>

namespace braid {

using llvm::support::endian::read32le;

namespace {
constexpr char kFrameMagic[] = {'b', 'r', 'd', '1'};

/// Why these 16 bytes are no header.
Status checkHeader(const char *header, size_t maxBody) {
  if (std::memcmp(header, kFrameMagic, 3) != 0)
    return badInput("expected a message, got other bytes");
  if (header[3] != kFrameMagic[3])
    return badInput("expected a message of version {}, got one of another version", kFrameMagic[3]);
  auto kind = static_cast<uint8_t>(header[4]);
  if (kind == 0 || kind > kLastFrameKind)
    return badInput("expected a kind of message from 1 to {}, got {}", kLastFrameKind, kind);
  if (static_cast<uint8_t>(header[5]) > 1 || header[6] != 0 || header[7] != 0)
    return badInput("expected a header with zeros where nothing is defined, got other bytes");
  if (uint32_t length = read32le(header + 12); length > maxBody)
    return badInput("expected a message of at most {} bytes, got {}", maxBody, length);
  return Status::ok();
}
} // namespace

std::string encode(const Frame &frame) {
  assert(frame.body.size() <= kMaxBody && "to be refused before");
  std::string bytes(kFrameMagic, sizeof kFrameMagic);
  bytes.reserve(kFrameHeaderBytes + frame.body.size());
  bytes += static_cast<char>(frame.kind);
  bytes += static_cast<char>(frame.hasDescriptor);
  bytes.append(2, '\0');
  append(bytes, frame.sequence);
  append(bytes, static_cast<uint32_t>(frame.body.size()));
  return bytes += frame.body;
}

Status FrameDecoder::feed(llvm::StringRef bytes) {
  if (!failure_.isOk())
    return failure_;
  pending_.append(bytes.data(), bytes.size());
  while (takeHeader() && takeBody()) {
  }
  // What has been taken goes when it is most of the whole: each byte is moved a few times at most.
  if (consumed_ > pending_.size() / 2) {
    pending_.erase(0, consumed_);
    consumed_ = 0;
  }
  return failure_;
}

bool FrameDecoder::takeHeader() {
  if (bodyBytes_)
    return true;
  if (pending_.size() - consumed_ < kFrameHeaderBytes)
    return false;
  const char *header = pending_.data() + consumed_;
  failure_ = checkHeader(header, maxBody_);
  if (!failure_.isOk())
    return false;
  current_.kind = static_cast<FrameKind>(header[4]);
  current_.hasDescriptor = header[5] != 0;
  current_.sequence = read32le(header + 8);
  bodyBytes_ = read32le(header + 12);
  consumed_ += kFrameHeaderBytes;
  return true;
}

bool FrameDecoder::takeBody() {
  if (pending_.size() - consumed_ < *bodyBytes_)
    return false;
  current_.body.assign(pending_, consumed_, *bodyBytes_);
  consumed_ += *bodyBytes_;
  bodyBytes_.reset();
  ready_.push_back(std::exchange(current_, {}));
  return true;
}

std::optional<Frame> FrameDecoder::next() {
  if (ready_.empty())
    return std::nullopt;
  Frame frame = std::move(ready_.front());
  ready_.pop_front();
  return frame;
}

// The number of parts, the length of each, then the parts.
std::string encodeParts(const std::vector<std::string> &parts) {
  std::string body;
  append(body, static_cast<uint32_t>(parts.size()));
  for (const std::string &part : parts)
    append(body, static_cast<uint32_t>(part.size()));
  for (const std::string &part : parts)
    body += part;
  return body;
}

Result<std::vector<std::string>> decodeParts(llvm::StringRef body) {
  if (body.size() < 4)
    return badInput("expected the number of parts, got the end of the message");
  size_t count = read32le(body.data());
  if (count > (body.size() - 4) / 4)
    return badInput("expected {} lengths of parts, got the end of the message", count);
  llvm::StringRef rest = body.drop_front(4 + 4 * count);
  std::vector<std::string> parts;
  for (size_t i = 0; i < count; ++i) {
    size_t length = read32le(body.data() + 4 + 4 * i);
    if (length > rest.size())
      return badInput("expected a part of {} bytes, got {}", length, rest.size());
    parts.push_back(rest.take_front(length).str());
    rest = rest.drop_front(length);
  }
  if (!rest.empty())
    return badInput("expected the end of the message, got {} more bytes", rest.size());
  return parts;
}

} // namespace braid
