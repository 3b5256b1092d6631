//===- runtime/job/bootstrap/frame.h - messages between a rank and the rendezvous endpoint ----===//
//
// A frame on the wire, all numbers little endian:
//
//   4 bytes   magic "brd1" (the last byte is the version)
//   1 byte    kind
//   1 byte    1 if a file descriptor comes along with the first byte of this frame, else 0
//   2 bytes   0
//   4 bytes   sequence: which of the collective steps of a connection this belongs to
//   4 bytes   length of the body
//   ...       body
//
// What reads frames is a function of bytes only, so that it can be fuzzed; sockets are elsewhere.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Endian.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace braid {

enum class FrameKind : uint8_t {
  Hello = 1,  ///< client -> host: who I am (see rendezvous.h)
  Welcome,    ///< host -> client: accepted; brings the descriptor of the job memory
  Refused,    ///< host -> client: the body says why; the connection ends
  Gather,     ///< client -> host: my part of all-gather number `sequence`
  Gathered,   ///< host -> client: all parts of it, in rank order
  Offer,      ///< client -> host: keeps the descriptor that comes along; body: its name
  Want,       ///< client -> host: the descriptor that `rank` offered; body: rank and name
  Descriptor, ///< host -> client: here it is, or the body says why not
  Disconnect, ///< client -> host: I am done; a connection that ends without it has died
  Commit,     ///< client -> host: as Gather, without a part: step `body` is done
};
inline constexpr uint8_t kLastFrameKind = static_cast<uint8_t>(FrameKind::Commit);

struct Frame {
  FrameKind kind = FrameKind::Hello;
  bool hasDescriptor = false;
  uint32_t sequence = 0;
  std::string body = {};
  bool operator==(const Frame &) const = default;
};

inline constexpr size_t kFrameHeaderBytes = 16;
inline constexpr size_t kMaxBodyBeforeWelcome = 4096;
inline constexpr size_t kMaxBody = size_t(256) << 20;

/// Adds a number to a body, little endian.
template <class Number> void append(std::string &bytes, Number number) {
  char field[sizeof number];
  llvm::support::endian::write<Number, llvm::support::little>(field, number);
  bytes.append(field, sizeof field);
}

std::string encode(const Frame &frame);

/// Takes bytes as they come, and gives out the frames in them. Once it has failed, it stays failed;
/// the frames before what it failed on are given out all the same, however the bytes were split.
class FrameDecoder {
public:
  explicit FrameDecoder(size_t maxBody) : maxBody_(maxBody) {}
  /// From now on, for frames whose header has not been read yet.
  void setMaxBody(size_t bytes) { maxBody_ = bytes; }
  /// BadInput for what is no frame of this version, or one with a body that is too long. Never
  /// allocates for a body before its bytes are there.
  Status feed(llvm::StringRef bytes);
  /// The oldest complete frame, or nothing.
  std::optional<Frame> next();
  /// Bytes of an incomplete frame have been read: the end of the stream would cut it off.
  bool isInside() const { return bodyBytes_.has_value() || consumed_ < pending_.size(); }

private:
  bool takeHeader();
  bool takeBody();
  size_t maxBody_;
  std::string pending_;               ///< bytes as they came, from a while ago
  size_t consumed_ = 0;               ///< of pending_, which have become a header or a body
  Frame current_;                     ///< the frame whose header has been read
  std::optional<uint32_t> bodyBytes_; ///< of current_; nothing: its header has not been read
  std::deque<Frame> ready_;
  Status failure_;
};

/// All parts of an all-gather in one body, and back. BadInput if `body` is not what
/// encodeParts() makes.
std::string encodeParts(const std::vector<std::string> &parts);
Result<std::vector<std::string>> decodeParts(llvm::StringRef body);

} // namespace braid
