//===- runtime/bootstrap/socket.cpp - frames and file descriptors over a Unix socket ----------===//

#include "runtime/bootstrap/socket.h"

#include <unistd.h>

namespace braid {

FileDescriptor &FileDescriptor::operator=(FileDescriptor &&other) noexcept {
  if (this != &other) {
    reset();
    number_ = other.release();
  }
  return *this;
}

void FileDescriptor::reset() {
  if (isValid())
    close(release());
}

} // namespace braid
