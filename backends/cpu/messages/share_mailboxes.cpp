//===- backends/cpu/messages/share_mailboxes.cpp - mailboxes of ranks that are processes ------===//

#include "backends/cpu/messages/share_mailboxes.h"

#include "ir/failure.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

namespace braid {
namespace {

constexpr const char *kName = "mailboxes";

/// Two hosts of a job may be one machine, where a test pretends that it is several. Each of them
/// has a rendezvous, which hands no descriptor to ranks of the other one.
struct MailboxPlace {
  uint64_t number = 0;
  std::string path; ///< in /proc, of rank 0's descriptor

  std::string encode() const { return fmt::format("{} {}", number, path); }
  static Result<MailboxPlace> decode(llvm::StringRef text) {
    const auto [number, path] = text.split(' ');
    MailboxPlace place{.path = path.str()};
    if (number.getAsInteger(10, place.number))
      return badInput("expected rank 0 to say where its mailboxes are, got {} bytes", text.size());
    return place;
  }
};

Result<FileDescriptor> descriptorOf(const MailboxPlace &place, ProcessGroup &group) {
  if (group.memory().isHere(0))
    return group.want(0, kName);
  return FileDescriptor(open(place.path.c_str(), O_RDWR | O_CLOEXEC));
}

} // namespace

Result<std::shared_ptr<Mailboxes>> shareMailboxes(ProcessGroup &group) {
  std::shared_ptr<Mailboxes> made;
  MailboxPlace own;
  if (group.rank() == 0) {
    made = BRAID_TRY(Mailboxes::create(group.size()));
    BRAID_TRY(group.offer(kName, made->descriptor()));
    own = {made->number(), fmt::format("/proc/{}/fd/{}", getpid(), made->descriptor())};
  }
  const auto texts = BRAID_TRY(group.allGather(own.encode()));
  if (made)
    return made;
  const MailboxPlace place = BRAID_TRY(MailboxPlace::decode(texts.front()));
  auto mapped = Mailboxes::map(BRAID_TRY(descriptorOf(place, group)), group.size(), place.number);
  if (!mapped && !group.memory().isHere(0))
    return unsupported("ranks {} and 0 are on different machines, and ranks of the CPU backend "
                       "are threads or processes of one machine; use --backend nccl between "
                       "machines",
                       group.rank());
  return mapped;
}

} // namespace braid
