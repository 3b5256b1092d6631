//===- runtime/job/bootstrap/start_thread.h - starts threads and reports failures -------------===//
#pragma once

#include "runtime/job/bootstrap/socket.h"

#include <functional>
#include <thread>

namespace braid {

/// Starts a thread that runs `body`. Returns Unsupported if the system cannot create a thread; the
/// message names `purpose` and the resource limit that was probably reached, most often memory.
Status startThread(std::thread &thread, const char *purpose, std::function<void()> body);

/// A thread that runs until stop() is called or this object is destroyed.
class ServiceThread {
public:
  /// Starts a thread that runs `body` with all signals blocked; see startThread(). `body` must
  /// return once end() is readable. Must be called at most once.
  Status start(const char *purpose, std::function<void()> body);
  /// Makes end() readable and waits for the thread. Idempotent.
  void stop();
  ~ServiceThread() { stop(); }
  /// Returns a descriptor for poll(), which becomes readable when the thread must stop.
  int end() const { return end_.get(); }

private:
  FileDescriptor end_; ///< an eventfd
  std::thread thread_;
};

/// Blocks all signals in the calling thread, so that other threads of the process handle them.
void blockSignals();

} // namespace braid
