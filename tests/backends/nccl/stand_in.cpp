//===- tests/backends/nccl/stand_in.cpp - a fake NCCL that records calls ----------------------===//

#include "tests/backends/nccl/stand_in.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <thread>

namespace braid::nccl {

/// The object that a handle points to.
struct Comm {
  int number = 0, members = 0, position = 0;
  Code state = Code::Success; ///< result, once the operation has ended
  int polls = 0;
};

} // namespace braid::nccl

namespace braid::test {
namespace {

using nccl::Code;
using nccl::Comm;

StandIn &standIn() {
  static StandIn the;
  return the;
}

std::map<std::string, int> &counts() {
  static std::map<std::string, int> the;
  return the;
}

int nextNumber = 0;
Comm *last = nullptr; ///< the communicator whose operation is in progress

const char *name(nccl::Type type) {
  switch (type) {
  case nccl::Type::Float16:
    return "f16";
  case nccl::Type::Float32:
    return "f32";
  case nccl::Type::Float64:
    return "f64";
  case nccl::Type::Bfloat16:
    return "bf16";
  }
  return "?";
}

const char *name(nccl::Operator op) {
  constexpr const char *kNames[] = {"sum", "prod", "max", "min"};
  return kNames[static_cast<int>(op)];
}

/// Counts the threads inside the library, and the calls that overlap another call.
class Inside {
public:
  Inside() {
    standIn().together += standIn().inside++ > 0;
    if (standIn().isSlow)
      std::this_thread::yield();
  }
  ~Inside() { --standIn().inside; }
};

/// Records a call and returns the code that the test injected for this call, or success.
Code called(const std::string &function, const std::string &text, Comm *comm) {
  const Inside inside;
  standIn().calls.push_back(text.empty() ? function : function + " " + text);
  const int call = counts()[function]++;
  if (comm) {
    last = comm;
    if (comm->state == Code::Success) // an error is permanent
      comm->polls = standIn().pollsInProgress;
  }
  for (const StandIn::Injected &each : standIn().injected)
    if (each.function == function && each.call == call) {
      if (!each.isLater || !comm)
        return each.code;
      comm->state = each.code;
      comm->polls = 1;
      return Code::InProgress;
    }
  const bool isGrouped = standIn().openGroups > 0;
  return comm && comm->polls != 0 && !isGrouped ? Code::InProgress : Code::Success;
}

std::string place(const Comm *comm, cudaStream_t stream) {
  return fmt::format("comm {} stream {}", comm->number, reinterpret_cast<uintptr_t>(stream));
}

} // namespace
} // namespace braid::test

using namespace braid::test;
using braid::nccl::Code;
using braid::nccl::Comm;
using braid::nccl::Config;
using braid::nccl::Operator;
using braid::nccl::Type;
using braid::nccl::UniqueId;

extern "C" {

StandIn *braidStandIn() { return &standIn(); }
void braidForget() {
  StandIn &the = standIn();
  the.version = 22809;
  the.calls.clear();
  the.injected.clear();
  the.pollsInProgress = the.liveCommunicators = the.openGroups = 0;
  the.isSlow = false;
  the.background = Code::Success;
  the.inside = the.together = 0;
  counts().clear();
  nextNumber = 0;
}

Code ncclGetVersion(int *version) {
  *version = standIn().version;
  return called("ncclGetVersion", "", nullptr);
}
#ifndef BRAID_WITHOUT_UNIQUE_ID
Code ncclGetUniqueId(UniqueId *id) {
  std::memset(id->bytes, 0x5a, sizeof(id->bytes));
  return called("ncclGetUniqueId", "", nullptr);
}
#endif
Code ncclCommInitRankConfig(Comm **comm, int members, UniqueId id, int position, Config *config) {
  const Code code = called("ncclCommInitRankConfig",
                           fmt::format("{} of {}, id {:#x}, blocking {}", position, members,
                                       static_cast<unsigned char>(id.bytes[127]), config->blocking),
                           nullptr);
  if (code != Code::Success)
    return code;
  *comm = new Comm{nextNumber++, members, position};
  ++standIn().liveCommunicators;
  (*comm)->polls = standIn().pollsInProgress;
  return (*comm)->polls != 0 ? Code::InProgress : Code::Success;
}
Code ncclCommFinalize(Comm *comm) {
  return called("ncclCommFinalize", fmt::format("comm {}", comm->number), comm);
}
Code ncclCommDestroy(Comm *comm) {
  const Code code = called("ncclCommDestroy", fmt::format("comm {}", comm->number), nullptr);
  --standIn().liveCommunicators;
  delete comm;
  return code;
}
Code ncclCommAbort(Comm *comm) {
  const Code code = called("ncclCommAbort", fmt::format("comm {}", comm->number), nullptr);
  --standIn().liveCommunicators;
  delete comm;
  return code;
}
Code ncclCommGetAsyncError(Comm *comm, Code *code) {
  const Inside inside;
  if (comm->polls != 0) {
    comm->polls -= comm->polls > 0;
    *code = Code::InProgress;
    return Code::Success;
  }
  *code = comm->state != Code::Success ? comm->state : standIn().background;
  return Code::Success;
}
const char *ncclGetErrorString(Code code) {
  static thread_local std::string text;
  text = fmt::format("error {}", static_cast<int>(code));
  return text.c_str();
}
const char *ncclGetLastError(Comm *) { return "the stand-in was told so"; }
Code ncclGroupStart() {
  ++standIn().openGroups;
  return called("ncclGroupStart", "", nullptr);
}
Code ncclGroupEnd() {
  --standIn().openGroups;
  return called("ncclGroupEnd", "", last);
}
Code ncclSend(const void *, size_t count, Type type, int peer, Comm *comm, cudaStream_t stream) {
  return called("ncclSend",
                fmt::format("{} {} to {} {}", count, name(type), peer, place(comm, stream)), comm);
}
Code ncclRecv(void *, size_t count, Type type, int peer, Comm *comm, cudaStream_t stream) {
  return called("ncclRecv",
                fmt::format("{} {} from {} {}", count, name(type), peer, place(comm, stream)),
                comm);
}
Code ncclAllGather(const void *, void *, size_t count, Type type, Comm *comm, cudaStream_t stream) {
  return called("ncclAllGather", fmt::format("{} {} {}", count, name(type), place(comm, stream)),
                comm);
}
Code ncclReduceScatter(const void *, void *, size_t count, Type type, Operator op, Comm *comm,
                       cudaStream_t stream) {
  return called("ncclReduceScatter",
                fmt::format("{} {} {} {}", count, name(type), name(op), place(comm, stream)), comm);
}
Code ncclAllReduce(const void *, void *, size_t count, Type type, Operator op, Comm *comm,
                   cudaStream_t stream) {
  return called("ncclAllReduce",
                fmt::format("{} {} {} {}", count, name(type), name(op), place(comm, stream)), comm);
}
Code ncclBroadcast(const void *, void *, size_t count, Type type, int root, Comm *comm,
                   cudaStream_t stream) {
  return called("ncclBroadcast",
                fmt::format("{} {} root {} {}", count, name(type), root, place(comm, stream)),
                comm);
}
Code ncclReduce(const void *, void *, size_t count, Type type, Operator op, int root, Comm *comm,
                cudaStream_t stream) {
  return called(
      "ncclReduce",
      fmt::format("{} {} {} root {} {}", count, name(type), name(op), root, place(comm, stream)),
      comm);
}
} // extern "C"
