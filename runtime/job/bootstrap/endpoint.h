//===- runtime/job/bootstrap/endpoint.h - where the ranks of a job find each other ------------===//
//
// The user's directory, <base>/braid-<uid>, belongs to the user with mode 0700; it is refused if it
// is a link, a file, somebody else's, or open to others. A job whose ranks are told the path has
// <base>/braid-<uid>-<random> instead then. In it, each job has a directory with a random name
// (128 bits), and in that a socket. Under a foreign launcher the ranks share only the job's key, so
// the name then begins with a digest of the key. The directory gets its name, by renaming, when
// somebody listens in it.
//
// Nothing stays: the directory goes as soon as all ranks have met and agreed. What a killed job
// leaves is recognised by a lock that died with its owner, and swept by the next one.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "runtime/job/bootstrap/environment.h"
#include "runtime/job/bootstrap/socket.h"

namespace braid {

/// $XDG_RUNTIME_DIR if that is a directory of this user's, else $TMPDIR, else /tmp.
std::string endpointBase(const Environment &environment = processEnvironment());
/// By how many bytes the path of a socket below `base` is too long, for a job of that name as
/// RendezvousEndpoint::open() takes it; 0 or less: it fits.
int64_t excessOfEndpoint(const std::string &base, const std::string &job);

/// 128 bits, in hexadecimal digits.
Result<std::string> randomName();

/// A listening socket in a directory of its own. Both go with the object, or with close().
class RendezvousEndpoint {
public:
  /// Sweeps what dead jobs left, then makes a directory and listens in it. If `job` is not empty,
  /// publishes the endpoint under that key. Unsupported if nothing can be made in the base, or the
  /// user's directory is not as it has to be and `job` is not empty.
  static Result<RendezvousEndpoint> open(const std::string &base, const std::string &job);
  RendezvousEndpoint(RendezvousEndpoint &&) noexcept;
  RendezvousEndpoint &operator=(RendezvousEndpoint &&) = delete;
  ~RendezvousEndpoint();

  const std::string &path() const { return path_; } ///< of the socket
  int listener() const { return listener_.get(); }
  /// Stops listening and removes everything from the file system. Idempotent.
  void close();

private:
  RendezvousEndpoint() = default;
  std::string parent_, directory_, path_;
  FileDescriptor listener_, lock_;
};

/// The paths of the sockets that living owners published under `job`, the newest first: of several,
/// others may be of a job that has just failed. Waits for one until the deadline, then TimedOut.
Result<std::vector<std::string>> findRendezvousEndpoints(const std::string &base,
                                                         const std::string &job, Deadline deadline);

} // namespace braid
