//===- runtime/execute/executor.cpp - binds a Plan to a device, and issues it -----------------===//

#include "runtime/execute/executor.h"

#include "ir/failure.h"
#include "runtime/execute/handshake.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <fmt/format.h>

#include <map>

namespace braid {

Result<void *> PeerMemory::allocateFrom(MemoryFrom from, int64_t) {
  return unsupported("this backend does not support memory={}", name(from));
}

/// The channel number under which messages are published.
constexpr uint32_t kChannelOfMessages = kNone;

/// Returns true for a group or a collective.
static bool isWhole(CommandKind kind) {
  return kind == CommandKind::Group || kind == CommandKind::Collective;
}

/// Binds a Plan's ranges to addresses, and its endpoints to peers' flags.
class Binder {
public:
  Binder(const Plan &plan, Device &device, ControlPlane &control, TransferMode transferMode,
         UnknownGemms unknown)
      : plan_(plan), device_(device), peers_(device.peerMemory()), control_(control),
        transferMode_(transferMode), unknown_(unknown),
        prepared_(new Prepared(plan, device, transferMode)) {}

  Status bind();
  std::unique_ptr<Prepared> take() { return std::move(prepared_); }

private:
  Status allocate();
  Result<void *> allocate(ArenaKind kind, int64_t bytes);
  Status share();
  Hello hello() const;
  Status meetPeers(const std::vector<Hello> &ranks);
  Status openTeams();
  Status connect();
  void findBatches();
  bool areDisjoint(uint32_t first, uint32_t count) const;

  bool sendsMessages() const { return plan_.transport == Transport::Messages; }
  int64_t flagBytes() const { return static_cast<int64_t>(plan_.flags) * kFlagStride; }

  const Plan &plan_;
  Device &device_;
  PeerMemory *peers_; ///< null if the device has none
  ControlPlane &control_;
  const TransferMode transferMode_;
  const UnknownGemms unknown_;
  std::unique_ptr<Prepared> prepared_;
  char *symmetric_ = nullptr;
};

Status Binder::bind() {
  BRAID_TRY(allocate());
  if (GemmTuning *tuning = device_.compute().tuning())
    BRAID_TRY(tuneGemms(plan_, *tuning, control_, unknown_));
  for (const PlanMatmul *gemm : distinctGemms(plan_))
    BRAID_TRY(device_.compute().warm(*gemm));
  // All channels of a rank are in one arena, so a single exchange is enough.
  BRAID_TRY(share());
  if (plan_.mayHaveMessages())
    BRAID_TRY(openTeams());
  findBatches();
  BRAID_TRY(device_.registerPlan(plan_, transferMode_));
  prepared_->isRegistered_ = true;
  return plan_.hasMessages() ? connect() : Status::ok();
}

Result<void *> Binder::allocate(ArenaKind kind, int64_t bytes) {
  const bool isChosen = kind == ArenaKind::Symmetric && transferMode_.memory != MemoryFrom::Default;
  Result<void *> arena =
      isChosen ? peers_->allocateFrom(transferMode_.memory, bytes) : device_.allocate(kind, bytes);
  if (arena)
    prepared_->arenas_.push_back(*arena);
  return arena;
}

Status Binder::allocate() {
  if (!sendsMessages())
    prepared_->flags_ =
        static_cast<char *>(BRAID_TRY(allocate(peers_->arenaOfFlags(transferMode_), flagBytes())));
  symmetric_ = static_cast<char *>(BRAID_TRY(allocate(ArenaKind::Symmetric, plan_.symmetricBytes)));
  void *device = BRAID_TRY(allocate(ArenaKind::Private, plan_.deviceBytes));
  BRAID_TRY(device_.reserveStreams(static_cast<uint32_t>(plan_.streams.size())));
  prepared_->firstEvent_ = BRAID_TRY(device_.createEvents(plan_.events));
  prepared_->bases_.assign(plan_.buffers.size(), nullptr);
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const PlanBuffer &buffer = plan_.buffers[i];
    if (buffer.kind == BufferKind::Symmetric)
      prepared_->bases_[i] = symmetric_ + buffer.offset;
    else if (buffer.kind == BufferKind::Device)
      prepared_->bases_[i] = static_cast<char *>(device) + buffer.offset;
  }
  return Status::ok();
}

Status Binder::share() {
  for (const Endpoint &endpoint : plan_.endpoints)
    if (endpoint.channel >= plan_.channels)
      return badInput("{} on rank {} uses handles that are never shared",
                      describeOrigin(plan_, endpoint.origin), plan_.rank);
  Hello mine = hello();
  if (!sendsMessages()) {
    mine.memory = BRAID_TRY(peers_->exportMemory(symmetric_));
    mine.flags = BRAID_TRY(peers_->exportMemory(prepared_->flags_));
  }
  std::vector<std::string> messages = BRAID_TRY(control_.allGather(mine.encode()));
  std::vector<Hello> ranks;
  for (const std::string &message : messages)
    ranks.push_back(BRAID_TRY(Hello::decode(message, plan_.rank)));
  ranks[static_cast<size_t>(plan_.rank)] = std::move(mine);
  if (haveSameProgram(ranks))
    return meetPeers(ranks);
  // All ranks detect the difference, so all ranks exchange their texts to locate it.
  const std::vector<std::string> texts = BRAID_TRY(control_.allGather(plan_.text));
  return programDifference(ranks, texts);
}

/// Lists messages as well, numbered like transfers, so that mismatches are detected before any run.
Hello Binder::hello() const {
  Hello message{plan_.program, plan_.fingerprint, {}, {}, {}};
  for (const Endpoint &e : plan_.endpoints) {
    const PlanBuffer *buffer =
        e.range.buffer == kPeerBuffer ? nullptr : &plan_.buffers[e.range.buffer];
    const bool isExported = buffer && buffer->kind == BufferKind::Symmetric;
    message.endpoints.push_back(
        {e.direction, e.peer, e.channel, e.sequence, e.dtype, e.range.bytes, e.flag * kFlagStride,
         isExported ? buffer->offset + e.range.offset : -1, describeOrigin(plan_, e.origin)});
  }
  std::map<std::pair<Direction, int64_t>, uint32_t> sequences;
  for (const PlanGroup &group : plan_.groups)
    for (const PlanMessage &m : group)
      message.endpoints.push_back({m.direction, m.peer, kChannelOfMessages,
                                   sequences[{m.direction, m.peer}]++, m.dtype, m.range.bytes, 0,
                                   -1, describeOrigin(plan_, m.origin)});
  return message;
}

/// Finds the peer's endpoint for each of this rank's transfers, and opens the peers' memory.
Status Binder::meetPeers(const std::vector<Hello> &ranks) {
  struct Opened {
    char *memory = nullptr, *flags = nullptr;
  };
  std::map<int64_t, Opened> peers;
  for (const PublishedEndpoint &mine : ranks[static_cast<size_t>(plan_.rank)].endpoints) {
    const PublishedEndpoint *other = BRAID_TRY(matchingEndpoint(ranks, plan_.rank, mine));
    if (mine.channel == kChannelOfMessages)
      continue;
    if (!plan_.isSameHost(mine.peer))
      return badInput(
          "{} on rank {} accesses the memory of rank {}, which is on another host; use messages",
          mine.where, plan_.rank, mine.peer);
    const Hello &peer = ranks[static_cast<size_t>(mine.peer)];
    Opened &opened = peers[mine.peer];
    if (!opened.memory) {
      opened.memory = static_cast<char *>(BRAID_TRY(peers_->open(mine.peer, peer.memory)));
      opened.flags = static_cast<char *>(BRAID_TRY(peers_->open(mine.peer, peer.flags)));
    }
    prepared_->peerSides_.push_back(
        {opened.flags + other->flagOffset, opened.memory + other->dataOffset});
  }
  return Status::ok();
}

//===- Messages -------------------------------------------------------------------------------===//

/// Returns the first group or collective between hosts, and a participating rank on another host.
static std::optional<std::pair<uint32_t, int64_t>> firstBetweenHosts(const Plan &plan) {
  for (const Command &command : plan.commands) {
    if (command.kind == CommandKind::Group)
      for (const PlanMessage &message : plan.groups[command.group])
        if (!plan.isSameHost(message.peer))
          return std::pair(message.origin, message.peer);
    if (command.kind == CommandKind::Collective)
      for (int64_t rank : plan.collectives[command.collective].team)
        if (!plan.isSameHost(rank))
          return std::pair(command.origin, rank);
  }
  return std::nullopt;
}

/// Requires a messaging library only if some rank sends messages.
Status Binder::openTeams() {
  if (plan_.teams.empty() && !sendsMessages()) {
    const std::vector<std::string> all =
        BRAID_TRY(control_.allGather(plan_.groups.empty() ? "" : "groups"));
    if (llvm::all_of(all, [](const std::string &text) { return text.empty(); }))
      return Status::ok();
  }
  if (!prepared_->messages_)
    return unsupported(
        "rank {}: this backend cannot send messages, but other ranks send messages to another host",
        plan_.rank);
  Status opened = prepared_->messages_->openTeams(plan_.teams, control_);
  const auto between = firstBetweenHosts(plan_);
  return between && !sendsMessages()
             ? opened.annotated(fmt::format("setting up messages between hosts for {}",
                                            describeOrigin(plan_, between->first)))
             : opened;
}

/// Issues each group and collective once, in order, while nothing else runs, because a messaging
/// library connects ranks when they first exchange data of a given kind and size. Later runs then
/// establish no connections and can be captured. The caller's tensors do not exist yet, so the
/// commands read and overwrite a placeholder instead. They may also overwrite the arenas, which
/// contain no data yet.
Status Binder::connect() {
  if (!prepared_->messages_->connectsLater())
    return Status::ok();
  int64_t most = 0;
  for (const PlanBuffer &buffer : plan_.buffers)
    if (buffer.kind == BufferKind::Input || buffer.kind == BufferKind::Output)
      most = std::max(most, buffer.bytes);
  void *standIn = BRAID_TRY(device_.allocate(ArenaKind::Private, most));
  std::vector<void *> &bases = prepared_->bases_;
  const std::vector<void *> before = bases;
  for (size_t i = 0; i < plan_.buffers.size(); ++i)
    if (!bases[i])
      bases[i] = standIn;
  for (uint32_t i = 0; i < plan_.commands.size(); ++i)
    if (isWhole(plan_.commands[i].kind))
      prepared_->issue(i, plan_.commands[i]);
  bases = before;
  Status status = device_.synchronize();
  device_.release(standIn);
  return status;
}

//===- Command batches ------------------------------------------------------------------------===//

static bool isBatchable(CommandKind kind) {
  return kind == CommandKind::Signal || kind == CommandKind::Await || kind == CommandKind::Copy;
}

bool gives(const Command &command, const PlanSum &sum) {
  return command.kind == CommandKind::Copy && command.dst.buffer == kPeerBuffer &&
         command.src == sum.dst;
}

bool continuesBatch(const Plan &plan, size_t command) {
  if (command == 0)
    return false;
  const Command &before = plan.commands[command - 1], &next = plan.commands[command];
  auto isBeside = [&](size_t other) { return plan.commands[other].stream == next.stream; };
  if (!isBeside(command - 1))
    return false;
  size_t last = command - 1; // the last command that is not an await
  while (last > 0 && plan.commands[last].kind == CommandKind::Await && isBeside(last - 1))
    --last;
  if (plan.commands[last].kind == CommandKind::Sum && continuesBatch(plan, last))
    return next.kind == CommandKind::Await || gives(next, plan.sums[plan.commands[last].sum]);
  return isBatchable(before.kind) && (isBatchable(next.kind) || next.kind == CommandKind::Sum);
}

size_t endOfBatch(const Plan &plan, size_t first) {
  size_t end = first + 1;
  while (end < plan.commands.size() && continuesBatch(plan, end))
    ++end;
  return end;
}

void Binder::findBatches() {
  const std::vector<Command> &commands = plan_.commands;
  prepared_->batches_.resize(commands.size());
  size_t longest = 1;
  for (uint32_t first = 0; first < commands.size();) {
    const auto end = static_cast<uint32_t>(endOfBatch(plan_, first));
    prepared_->batches_[first] = {end - first, areDisjoint(first, end - first)};
    longest = std::max<size_t>(longest, end - first);
    first = end;
  }
  prepared_->steps_.reserve(longest);
  prepared_->stepSums_.reserve(longest);
  longest = 0;
  for (const PlanGroup &group : plan_.groups)
    longest = std::max(longest, group.size());
  prepared_->group_.reserve(longest);
}

/// Returns true if no copy accesses bytes that another copy writes. Within a run, different buffers
/// may overlap only in the private arena, where a buffer can reuse another buffer's space.
bool Binder::areDisjoint(uint32_t first, uint32_t count) const {
  struct Side {
    int64_t space, begin, bytes;
    bool isWrite;
  };
  auto sideOf = [&](const Range &range, const Command &command, bool isWrite) -> Side {
    const int64_t bytes = command.dst.bytes;
    if (range.buffer == kPeerBuffer)
      return {-1 - plan_.endpoints[command.endpoint].peer,
              reinterpret_cast<intptr_t>(prepared_->at(range, command.endpoint)), bytes, isWrite};
    const PlanBuffer &buffer = plan_.buffers[range.buffer];
    if (buffer.kind == BufferKind::Device)
      return {kNone, buffer.offset + range.offset, bytes, isWrite};
    return {range.buffer, range.offset, bytes, isWrite};
  };
  auto mayMeet = [](const Side &a, const Side &b) {
    return a.space == b.space && (a.isWrite || b.isWrite) && a.begin < b.begin + b.bytes &&
           b.begin < a.begin + a.bytes;
  };
  std::vector<Side> sides;
  for (const Command &command : llvm::ArrayRef(plan_.commands).slice(first, count)) {
    if (command.kind != CommandKind::Copy)
      continue;
    const Side dst = sideOf(command.dst, command, true), src = sideOf(command.src, command, false);
    for (const Side &other : sides)
      if (mayMeet(dst, other) || mayMeet(src, other))
        return false;
    sides.push_back(dst);
    sides.push_back(src);
  }
  return true;
}

/// Frees unused memory in two steps, so that no rank frees memory that a peer still maps. `unused`
/// lists each rank's unused memory.
static Status freeUnused(PeerMemory &peers, ControlPlane &control,
                         llvm::ArrayRef<std::string> unused) {
  if (llvm::all_of(unused, [](const std::string &each) { return each.empty(); }))
    return Status::ok();
  for (size_t peer = 0; peer < unused.size(); ++peer)
    peers.closeUnused(static_cast<int64_t>(peer), unused[peer]);
  BRAID_TRY(control.allGather("closed"));
  peers.freeUnused();
  return Status::ok();
}

/// Collective: recycles released memory. Fails if `choices`, a result of encodeChoices(), differ
/// between ranks, because the ranks would then make different collective calls.
///
/// Once all ranks have arrived with no work in flight, no copy or signal of an earlier program is
/// pending, including those that no rank awaits. A peer cannot access the next program's memory
/// before it receives the address, and the device has zeroed the memory by then.
static Status recycle(Device &device, ControlPlane &control, const std::string &choices,
                      bool isAll) {
  // If a capture of the device's stream prevents preparation, this call must report the error
  // before synchronize() invalidates the capture and reports a different reason.
  BRAID_TRY(device.reserveStreams(0));
  BRAID_TRY(device.synchronize());
  PeerMemory *peers = device.peerMemory();
  const std::string unused = peers ? peers->unusedMemory(isAll) : "";
  std::vector<std::string> texts = BRAID_TRY(control.allGather(choices + "\n" + unused));
  std::vector<std::string> ofPeers;
  for (std::string &text : texts) {
    const auto [head, tail] = llvm::StringRef(text).split('\n');
    ofPeers.push_back(tail.str());
    text = head.str();
  }
  BRAID_TRY(compareChoices(texts));
  device.recycle();
  return peers ? freeUnused(*peers, control, ofPeers) : Status::ok();
}

/// Encodes the options that must match: ranks with different memory providers cannot share memory.
static std::string encode(TransferMode mode, const Compute &compute) {
  return encodeChoices({{"reproducible", compute.isReproducible() ? "yes" : "no"},
                        {"memory", name(mode.memory).str()}});
}

Status giveBack(Device &device, ControlPlane &control) {
  const Status status =
      recycle(device, control, encodeChoices({{"call", "giveBack"}}), /*isAll=*/true);
  if (!status.isOk())
    control.abort(status);
  return status;
}

/// Returns Unsupported, with the reason, if the device lacks a capability that the Plan needs.
static Status checkCapabilities(const Plan &plan, Device &device, TransferMode mode) {
  const bool sends = plan.transport == Transport::Messages;
  const PeerMemory *peers = device.peerMemory();
  const auto between = device.messages() ? std::nullopt : firstBetweenHosts(plan);
  const std::pair<bool, std::string> refusals[] = {
      {sends && !device.messages(), "expected a backend that sends messages"},
      {sends && mode != TransferMode(),
       "copy, signal and memory modes cannot be selected for messages"},
      {!sends && !peers, "expected a backend whose ranks can access each other's memory"},
      {between.has_value(),
       between ? fmt::format("{}: ranks {} and {} are on different hosts: expected a backend that "
                             "sends messages",
                             place(plan, between->first), plan.rank, between->second)
               : ""},
      {!sends && peers && !peers->offers(mode),
       "this backend does not support the selected copy, signal or memory mode"},
  };
  for (const auto &[isRefused, why] : refusals)
    if (isRefused)
      return unsupported("{}", why);
  return Status::ok();
}

Result<std::unique_ptr<Prepared>> prepare(const Plan &plan, Device &device, ControlPlane &control,
                                          TransferMode transferMode, UnknownGemms unknown) {
  if (control.size() != plan.ranks || control.rank() != plan.rank)
    return badInput("the plan is for rank {} of {}, but this is rank {} of {}", plan.rank,
                    plan.ranks, control.rank(), control.size());
  Binder binder(plan, device, control, transferMode, unknown);
  Status mine = checkCapabilities(plan, device, transferMode);
  if (mine.isOk())
    mine = recycle(device, control, encode(transferMode, device.compute()), /*isAll=*/false);
  if (mine.isOk())
    mine = binder.bind();
  if (!mine.isOk()) {
    control.abort(mine);
    return mine;
  }
  // No rank may run before all ranks are prepared.
  BRAID_TRY(control.allGather("prepared"));
  return binder.take();
}

//===- Running --------------------------------------------------------------------------------===//

Prepared::~Prepared() {
  if (isRegistered_)
    device_->releasePlan(*plan_);
  for (uint32_t recording : recordings_)
    graphs_->releaseGraph(recording);
  if (firstEvent_)
    device_->releaseEvents(*firstEvent_);
  for (void *arena : arenas_)
    device_->release(arena);
}

Tag Prepared::begin() {
  const Tag tag{plan_, kNone, epoch_};
  if (graphs_)
    graphs_->beginRun(tag);
  return tag;
}

void Prepared::end(Tag tag) {
  if (graphs_)
    graphs_->endRun(tag);
}

void Prepared::run(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs) {
  const bool isRecorded = graphs_ && graphs_->isInCallersCapture();
  epoch_ += isRecorded ? 0 : 1;
  const Tag tag = begin();
  issueAll(inputs, outputs);
  end(tag);
}

Result<uint32_t> Prepared::record(llvm::ArrayRef<const void *> inputs,
                                  llvm::ArrayRef<void *> outputs) {
  if (!graphs_)
    return unsupported("this device does not support graphs");
  BRAID_TRY(graphs_->beginCapture());
  const Tag tag = begin();
  issueAll(inputs, outputs);
  end(tag);
  recordings_.push_back(BRAID_TRY(graphs_->endCapture()));
  return recordings_.back();
}

void Prepared::replay(uint32_t recording) {
  ++epoch_;
  const Tag tag = begin();
  graphs_->launch(recording, tag);
  end(tag);
}

std::optional<size_t> Prepared::allocationsOf(llvm::ArrayRef<const void *> inputs,
                                              llvm::ArrayRef<void *> outputs) const {
  llvm::hash_code hash(0);
  auto add = [&](const void *tensor, uint32_t buffer) {
    const int64_t bytes = plan_->buffers[buffer].bytes;
    if (!tensor || bytes == 0)
      return true;
    const uint64_t first = graphs_->allocationOf(tensor);
    hash = llvm::hash_combine(hash, first);
    return first != 0 &&
           first == graphs_->allocationOf(static_cast<const char *>(tensor) + bytes - 1);
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!add(inputs[i], plan_->inputs[i]))
      return std::nullopt;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!add(outputs[i], plan_->outputs[i]))
      return std::nullopt;
  return hash;
}

void Prepared::forget(uint32_t recording) {
  std::erase(recordings_, recording);
  graphs_->releaseGraph(recording);
}

Status Prepared::capture(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs) {
  const uint32_t graph = BRAID_TRY(record(inputs, outputs));
  if (graph_)
    forget(*graph_);
  graph_ = graph;
  return Status::ok();
}

void Prepared::replay() {
  assert(graph_ && "capture() must be called before replay()");
  replay(*graph_);
}

void Prepared::issueAll(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs) {
  assert(inputs.size() == plan_->inputs.size() && outputs.size() == plan_->outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    bases_[plan_->inputs[i]] =
        const_cast<void *>(inputs[i]); // the verifier ensures that inputs are only read
  for (size_t i = 0; i < outputs.size(); ++i)
    bases_[plan_->outputs[i]] = outputs[i];
  const uint32_t count = static_cast<uint32_t>(plan_->commands.size());
  for (uint32_t index = 0; index < count; index += batches_[index].count)
    if (isBatchable(plan_->commands[index].kind))
      issueBatch(index, batches_[index]);
    else
      issue(index, plan_->commands[index]);
}

BatchedCommand Prepared::stepOf(uint32_t index) {
  const Command &command = plan_->commands[index];
  BatchedCommand step{command.kind, index, nullptr, nullptr, nullptr, 0};
  step.published = command.endpoint == kNone ? Published::Nothing // stays in local memory
                                             : plan_->endpoints[command.endpoint].published();
  if (command.kind == CommandKind::Signal)
    step.flag = peerSides_[command.endpoint].flag;
  if (command.kind == CommandKind::Await)
    step.flag = flags_ + plan_->endpoints[command.endpoint].flag * kFlagStride;
  if (command.kind == CommandKind::Sum)
    step.sum = &stepSums_.emplace_back(sumArgs(plan_->sums[command.sum]));
  if (command.kind == CommandKind::Copy) {
    step.dst = at(command.dst, command.endpoint);
    step.src = at(command.src, command.endpoint);
    step.bytes = command.dst.bytes;
  }
  return step;
}

void Prepared::issueBatch(uint32_t first, const Batch &batch) {
  steps_.clear();
  stepSums_.clear();
  for (uint32_t index = first; index < first + batch.count; ++index)
    steps_.push_back(stepOf(index));
  const uint32_t stream = plan_->commands[first].stream;
  if (peers_)
    return peers_->issueBatch(stream, {plan_, first, epoch_}, steps_, batch.areDisjoint,
                              transferMode_);
  for (const BatchedCommand &step : steps_) {
    const Tag tag{plan_, step.command, epoch_};
    if (step.kind == CommandKind::Sum)
      compute_->sum(stream, tag, *step.sum);
    else
      device_->copy(stream, tag, step.dst, step.src, step.bytes);
  }
}

void Prepared::issue(uint32_t index, const Command &command) {
  const Tag tag{plan_, index, epoch_};
  switch (command.kind) {
  case CommandKind::Matmul:
    return compute_->matmul(command.stream, tag, matmulArgs(command));
  case CommandKind::Sum:
    return compute_->sum(command.stream, tag, sumArgs(plan_->sums[command.sum]));
  case CommandKind::Pointwise:
    return compute_->pointwise(command.stream, tag,
                               pointwiseArgs(plan_->pointwise[command.pointwise]));
  case CommandKind::Group:
    return issueGroup(tag, command);
  case CommandKind::Collective: {
    const PlanCollective &c = plan_->collectives[command.collective];
    return messages_->collective(command.stream, tag,
                                 {c.kind, c.reduction, c.dtype, c.team, c.root, at(c.dst),
                                  at(c.src), c.dst.bytes, c.src.bytes});
  }
  case CommandKind::Copy:
  case CommandKind::Signal:
  case CommandKind::Await:
    llvm_unreachable("they are issued in batches");
  case CommandKind::Record:
    return device_->record(command.stream, tag, *firstEvent_ + command.event);
  case CommandKind::WaitEvent:
    return device_->waitEvent(command.stream, tag, *firstEvent_ + command.event);
  }
}

MatmulArgs Prepared::matmulArgs(const Command &command) const {
  const PlanMatmul &gemm = plan_->matmuls[command.matmul];
  const void *bias = gemm.bias.bytes == 0 ? nullptr : at(gemm.bias);
  const void *addend = gemm.addend.bytes == 0 ? nullptr : at(gemm.addend);
  return {gemm.dtype,    gemm.transposeB,  gemm.m, gemm.n, gemm.k,
          at(gemm.a),    at(gemm.b),       bias,   addend, at(gemm.c, command.endpoint),
          gemm.overlaps, gemm.resultType()};
}

SumArgs Prepared::sumArgs(const PlanSum &sum) const {
  const int64_t biasCount = sum.bias.bytes / sizeOf(sum.dtype);
  const void *bias = biasCount == 0 ? nullptr : at(sum.bias);
  return {sum.dtype, sum.partial, sum.elements(), sum.count,  sum.stride,    at(sum.parts),
          bias,      biasCount,   at(sum.dst),    sum.result, sum.keepsParts};
}

PointwiseArgs Prepared::pointwiseArgs(const PlanPointwise &pointwise) const {
  PointwiseArgs args{pointwise.dtype,
                     pointwise.elements(),
                     at(pointwise.dst),
                     {pointwise.first.dtype, at(pointwise.first.range)},
                     static_cast<uint32_t>(pointwise.steps.size()),
                     {}};
  for (size_t i = 0; i < pointwise.steps.size(); ++i) {
    const auto &[function, operand] = pointwise.steps[i];
    args.steps[i] = {function, {operand.dtype, isBinary(function) ? at(operand.range) : nullptr}};
  }
  return args;
}

void Prepared::issueGroup(Tag tag, const Command &command) {
  group_.clear();
  for (const PlanMessage &m : plan_->groups[command.group])
    group_.push_back({m.direction, m.peer, m.dtype, at(m.range), m.range.bytes});
  messages_->group(command.stream, tag, group_);
}

} // namespace braid
