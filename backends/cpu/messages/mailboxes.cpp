//===- backends/cpu/messages/mailboxes.cpp - messages between ranks on one machine ------------===//

#include "backends/cpu/messages/mailboxes.h"

#include "ir/failure.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace braid {
namespace {

struct alignas(64) Bell {
  std::atomic<uint32_t> rings;
};

} // namespace

/// The header, which is followed in memory by one bell per rank and one mailbox per pair of ranks.
struct alignas(64) Mailboxes::Header {
  uint64_t number; ///< random number that rank 0 drew to identify these mailboxes
  Bell *bells() { return reinterpret_cast<Bell *>(this + 1); }
};

size_t Mailboxes::bytes(int64_t ranks) {
  const auto count = static_cast<size_t>(ranks);
  return sizeof(Header) + count * sizeof(Bell) + count * count * sizeof(Mailbox);
}

Result<std::unique_ptr<Mailboxes>> Mailboxes::make(int64_t ranks) {
  FileDescriptor descriptor(memfd_create("braid-messages", MFD_CLOEXEC));
  if (!descriptor.isValid() || ftruncate(descriptor.get(), static_cast<off_t>(bytes(ranks))) != 0)
    return unsupported("cannot allocate memory for messages between {} ranks", ranks);
  auto made = BRAID_TRY(map(std::move(descriptor), ranks));
  if (getrandom(&made->header_->number, sizeof(uint64_t), 0) != sizeof(uint64_t))
    return unsupported("cannot get a random number");
  return made;
}

Result<std::unique_ptr<Mailboxes>> Mailboxes::map(FileDescriptor descriptor, int64_t ranks) {
  void *address =
      mmap(nullptr, bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED)
    return unsupported("cannot map memory for messages between {} ranks", ranks);
  return std::unique_ptr<Mailboxes>(new Mailboxes(std::move(descriptor), address, ranks));
}

/// Ranks open rank 0's memory through /proc; on other machines, the path may name a different file.
Result<std::unique_ptr<Mailboxes>> Mailboxes::share(ControlPlane &control) {
  std::unique_ptr<Mailboxes> own;
  std::string place;
  if (control.rank() == 0) {
    own = BRAID_TRY(make(control.size()));
    place =
        fmt::format("{} /proc/{}/fd/{}", own->header_->number, getpid(), own->descriptor_.get());
  }
  const std::vector<std::string> places = BRAID_TRY(control.allGather(place));
  if (own)
    return own;
  const auto [number, path] = llvm::StringRef(places.front()).split(' ');
  FileDescriptor descriptor(open(path.str().c_str(), O_RDWR | O_CLOEXEC));
  struct stat info;
  if (descriptor.isValid() && fstat(descriptor.get(), &info) == 0 &&
      static_cast<size_t>(info.st_size) == bytes(control.size())) {
    auto shared = BRAID_TRY(map(std::move(descriptor), control.size()));
    if (std::to_string(shared->header_->number) == number)
      return shared;
  }
  return unsupported(
      "rank {} cannot open memory of rank 0 through /proc: CPU ranks must be threads or processes "
      "of one machine in one PID namespace; use --backend nccl across machines",
      control.rank());
}

Mailboxes::~Mailboxes() { munmap(header_, bytes(ranks_)); }

std::atomic<uint32_t> &Mailboxes::bell(int64_t rank) { return header_->bells()[rank].rings; }

Mailbox &Mailboxes::between(int64_t from, int64_t to) {
  auto *boxes = reinterpret_cast<Mailbox *>(header_->bells() + ranks_);
  return boxes[to * ranks_ + from];
}

} // namespace braid
