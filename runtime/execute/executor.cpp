//===- runtime/execute/executor.cpp - binds a Plan to a device, and issues it -----------------===//

#include "runtime/execute/executor.h"

#include "ir/failure.h"
#include "runtime/execute/handshake.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

namespace braid {

Result<std::vector<void *>> PeerMemory::allocateFrom(MemoryFrom from, llvm::ArrayRef<int64_t>,
                                                     ControlPlane &) {
  return unsupported("this backend has no memory '{}'", name(from));
}

/// Under which messages are published.
constexpr uint32_t kChannelOfMessages = kNone;
/// Precedes the collectives in the text of a rank that has groups of messages.
constexpr llvm::StringLiteral kHasGroups = "groups\n";

/// A group or a collective.
static bool isWhole(CommandKind kind) {
  return kind == CommandKind::Group || kind == CommandKind::Collective;
}

/// Turns the ranges of a Plan into operands, and its endpoints into flags of peers.
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
  Status allocateReachable();
  Result<void *> allocate(ArenaKind kind, int64_t bytes);
  Status share();
  Status differentPrograms(const std::vector<Hello> &ranks);
  Status checkChannels() const;
  Hello hello(std::string memory, std::string flags) const;
  std::vector<PublishedEndpoint> publishMessages() const;
  Status openPeers(const std::vector<Hello> &ranks);
  Status meetPeers(const std::vector<Hello> &ranks);
  void bindCommands();
  Status openTeams();
  Status connect();
  void findBatches();
  bool areDisjoint(uint32_t first, uint32_t count) const;
  Prepared::Operand operand(const Range &range, uint32_t endpoint) const;

  bool sendsMessages() const { return plan_.transport == Transport::Messages; }
  int64_t flagBytes() const { return static_cast<int64_t>(plan_.flags) * kFlagStride; }
  uint32_t peerBase(int64_t peer) const {
    return static_cast<uint32_t>(plan_.buffers.size()) + static_cast<uint32_t>(peer);
  }

  const Plan &plan_;
  Device &device_;
  PeerMemory *peers_; ///< null: the device has none
  ControlPlane &control_;
  const TransferMode transferMode_;
  const UnknownGemms unknown_;
  std::unique_ptr<Prepared> prepared_;
  char *flags_ = nullptr;
  char *symmetric_ = nullptr;
  std::map<int64_t, char *> peerFlags_; ///< by rank
  struct Meeting {
    void *flag = nullptr;    ///< the one the peer awaits
    int64_t dataOffset = -1; ///< in the peer's exported memory
  };
  std::vector<Meeting> meetings_; ///< one for each endpoint
};

Status Binder::bind() {
  for (const PrepareAction &step : plan_.preparation)
    if (step.kind == PrepareKind::AllocateArenas)
      BRAID_TRY(allocate());
  if (GemmTuning *tuning = device_.compute().tuning())
    BRAID_TRY(tuneGemms(plan_, *tuning, control_, unknown_));
  for (const PrepareAction &step : plan_.preparation)
    if (step.kind == PrepareKind::Warm)
      BRAID_TRY(device_.compute().warm(plan_.matmuls[step.matmul]));
  // All channels of a rank lie in one arena, so one exchange serves every Share step; it happens
  // also without any, because agreeing on the program comes first.
  BRAID_TRY(share());
  BRAID_TRY(checkChannels());
  for (const PrepareAction &step : plan_.preparation)
    if (step.kind == PrepareKind::Connect)
      BRAID_TRY(openTeams());
  bindCommands();
  findBatches();
  BRAID_TRY(device_.registerPlan(plan_, transferMode_));
  prepared_->isRegistered_ = true;
  for (const PrepareAction &step : plan_.preparation)
    if (step.kind == PrepareKind::Connect)
      BRAID_TRY(connect());
  return Status::ok();
}

Result<void *> Binder::allocate(ArenaKind kind, int64_t bytes) {
  Result<void *> arena = device_.allocate(kind, bytes);
  if (arena)
    prepared_->arenas_.push_back(*arena);
  return arena;
}

/// The flags, and what peers copy from and to.
Status Binder::allocateReachable() {
  const ArenaKind ofFlags =
      sendsMessages() ? ArenaKind::Private : peers_->arenaOfFlags(transferMode_);
  if (transferMode_.memory == MemoryFrom::Default) {
    if (!sendsMessages())
      flags_ = static_cast<char *>(BRAID_TRY(allocate(ofFlags, flagBytes())));
    symmetric_ =
        static_cast<char *>(BRAID_TRY(allocate(ArenaKind::Symmetric, plan_.symmetricBytes)));
    return Status::ok();
  }
  const bool areFlagsThere = ofFlags == ArenaKind::Symmetric;
  std::vector<int64_t> bytes = {plan_.symmetricBytes};
  if (areFlagsThere)
    bytes.push_back(flagBytes());
  const std::vector<void *> arenas =
      BRAID_TRY(peers_->allocateFrom(transferMode_.memory, bytes, control_));
  llvm::append_range(prepared_->arenas_, arenas);
  symmetric_ = static_cast<char *>(arenas.front());
  if (areFlagsThere)
    flags_ = static_cast<char *>(arenas.back());
  else if (!sendsMessages())
    flags_ = static_cast<char *>(BRAID_TRY(allocate(ofFlags, flagBytes())));
  return Status::ok();
}

Status Binder::allocate() {
  BRAID_TRY(allocateReachable());
  void *device = BRAID_TRY(allocate(ArenaKind::Private, plan_.deviceBytes));
  BRAID_TRY(device_.reserveStreams(static_cast<uint32_t>(plan_.streams.size())));
  prepared_->firstEvent_ = BRAID_TRY(device_.createEvents(plan_.events));
  prepared_->bases_.assign(plan_.buffers.size() + static_cast<size_t>(plan_.ranks), nullptr);
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
  std::string memory, flags;
  if (!sendsMessages()) {
    memory = BRAID_TRY(peers_->exportMemory(symmetric_));
    flags = BRAID_TRY(peers_->exportMemory(flags_));
  }
  Hello mine = hello(memory, flags);
  std::vector<std::string> messages = BRAID_TRY(control_.allGather(mine.encode()));
  std::vector<Hello> ranks;
  for (const std::string &message : messages)
    ranks.push_back(BRAID_TRY(Hello::decode(message, plan_.rank)));
  ranks[static_cast<size_t>(plan_.rank)] = std::move(mine);
  BRAID_TRY(compareDevices(ranks));
  if (!haveSameProgram(ranks))
    return differentPrograms(ranks);
  BRAID_TRY(openPeers(ranks));
  return meetPeers(ranks);
}

/// All ranks see that their programs differ, so all of them exchange the texts, to say where.
Status Binder::differentPrograms(const std::vector<Hello> &ranks) {
  Result<std::vector<std::string>> texts = control_.allGather(plan_.text);
  return texts ? programDifference(ranks, *texts) : texts.status();
}

/// Since one exchange serves all channels, a missing step would not be noticed otherwise.
Status Binder::checkChannels() const {
  std::set<uint32_t> shared;
  for (const PrepareAction &step : plan_.preparation)
    if (step.kind == PrepareKind::Share)
      shared.insert(step.channel);
  for (const Endpoint &endpoint : plan_.endpoints)
    if (!shared.count(endpoint.channel))
      return badInput("rank {} does not share the handles that {} goes through", plan_.rank,
                      describeOrigin(plan_, endpoint.origin));
  return Status::ok();
}

Hello Binder::hello(std::string memory, std::string flags) const {
  Hello message{plan_.program, plan_.fingerprint, std::move(memory), std::move(flags), {}};
  for (const Endpoint &e : plan_.endpoints) {
    const PlanBuffer *buffer =
        e.range.buffer == kPeerBuffer ? nullptr : &plan_.buffers[e.range.buffer];
    const bool isExported = buffer && buffer->kind == BufferKind::Symmetric;
    message.endpoints.push_back(
        {e.direction, e.peer, e.channel, e.sequence, e.dtype, e.range.bytes, e.flag * kFlagStride,
         isExported ? buffer->offset + e.range.offset : -1, describeOrigin(plan_, e.origin)});
  }
  for (PublishedEndpoint &endpoint : publishMessages())
    message.endpoints.push_back(std::move(endpoint));
  message.isReproducible = device_.compute().isReproducible();
  return message;
}

/// They meet by number, like transfers, so what does not match is found before it hangs.
std::vector<PublishedEndpoint> Binder::publishMessages() const {
  std::vector<PublishedEndpoint> rows;
  std::map<std::pair<Direction, int64_t>, uint32_t> sequences;
  for (const PlanGroup &group : plan_.groups)
    for (const PlanMessage &m : group)
      rows.push_back({m.direction, m.peer, kChannelOfMessages, sequences[{m.direction, m.peer}]++,
                      m.dtype, m.range.bytes, 0, -1, describeOrigin(plan_, m.origin)});
  return rows;
}

Status Binder::openPeers(const std::vector<Hello> &ranks) {
  for (const Endpoint &endpoint : plan_.endpoints) {
    void *&base = prepared_->bases_[peerBase(endpoint.peer)];
    if (base)
      continue;
    if (!plan_.isSameHost(endpoint.peer))
      return badInput("{} on rank {} goes to the memory of rank {}, which is on another host: "
                      "expected a message",
                      describeOrigin(plan_, endpoint.origin), plan_.rank, endpoint.peer);
    const Hello &peer = ranks[static_cast<size_t>(endpoint.peer)];
    void *memory = BRAID_TRY(peers_->open(endpoint.peer, peer.memory));
    void *flags = BRAID_TRY(peers_->open(endpoint.peer, peer.flags));
    base = memory;
    peerFlags_[endpoint.peer] = static_cast<char *>(flags);
  }
  return Status::ok();
}

/// Finds the other side of every transfer of this rank.
Status Binder::meetPeers(const std::vector<Hello> &ranks) {
  for (const PublishedEndpoint &mine : ranks[static_cast<size_t>(plan_.rank)].endpoints) {
    const PublishedEndpoint *other = BRAID_TRY(matchingEndpoint(ranks, plan_.rank, mine));
    if (mine.channel != kChannelOfMessages)
      meetings_.push_back({peerFlags_[mine.peer] + other->flagOffset, other->dataOffset});
  }
  return Status::ok();
}

Prepared::Operand Binder::operand(const Range &range, uint32_t endpoint) const {
  if (range.buffer != kPeerBuffer)
    return {range.buffer, range.offset};
  return {peerBase(plan_.endpoints[endpoint].peer), meetings_[endpoint].dataOffset};
}

/// The operands of a command, in the order in which it is issued with them.
static std::vector<Range> operandsOf(const Plan &plan, const Command &command) {
  switch (command.kind) {
  case CommandKind::Copy:
    return {command.dst, command.src};
  case CommandKind::Matmul: {
    const PlanMatmul &m = plan.matmuls[command.matmul];
    return {m.a, m.b, m.bias, m.addend, m.c};
  }
  case CommandKind::Sum: {
    const PlanSum &sum = plan.sums[command.sum];
    return {sum.parts, sum.bias, sum.dst};
  }
  case CommandKind::Pointwise: {
    const PlanPointwise &pointwise = plan.pointwise[command.pointwise];
    std::vector<Range> ranges = {pointwise.dst, pointwise.first.range};
    for (const auto &step : pointwise.steps)
      ranges.push_back(step.operand.range);
    return ranges;
  }
  case CommandKind::Group: {
    std::vector<Range> ranges;
    for (const PlanMessage &message : plan.groups[command.group])
      ranges.push_back(message.range);
    return ranges;
  }
  case CommandKind::Collective:
    return {plan.collectives[command.collective].dst, plan.collectives[command.collective].src};
  case CommandKind::Signal:
  case CommandKind::Await:
  case CommandKind::Record:
  case CommandKind::WaitEvent:
    return {};
  }
  llvm_unreachable("covered above");
}

void Binder::bindCommands() {
  prepared_->bound_.reserve(plan_.commands.size());
  for (const Command &command : plan_.commands) {
    Prepared::Bound bound{prepared_->operands_.size()};
    for (const Range &range : operandsOf(plan_, command))
      prepared_->operands_.push_back(operand(range, command.endpoint));
    if (command.kind == CommandKind::Signal)
      bound.flag = meetings_[command.endpoint].flag;
    else if (command.kind == CommandKind::Await)
      bound.flag = flags_ + command.flag * kFlagStride;
    if (command.endpoint != kNone) // else it stays in this rank's memory
      bound.published = plan_.endpoints[command.endpoint].published();
    prepared_->bound_.push_back(bound);
  }
  size_t longest = 0;
  for (const PlanGroup &group : plan_.groups)
    longest = std::max(longest, group.size());
  prepared_->group_.reserve(longest);
}

//===- Messages -------------------------------------------------------------------------------===//

/// The first group or collective that leaves the host, and a rank that it meets on another one.
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

/// All ranks open the teams of all ranks, in one order, so a mismatch is found before it hangs. If
/// no rank sends anything, no library is needed.
Status Binder::openTeams() {
  const bool areInWindows = sendsMessages() && transferMode_.memory == MemoryFrom::Nccl;
  const std::string mine =
      (plan_.groups.empty() ? "" : kHasGroups.str()) + encodeCollectives(plan_, areInWindows);
  std::vector<std::string> all = BRAID_TRY(control_.allGather(mine));
  const bool hasAny = llvm::any_of(all, [](const std::string &text) { return !text.empty(); });
  if (!hasAny && !sendsMessages())
    return Status::ok();
  for (std::string &text : all) {
    llvm::StringRef rest = text;
    rest.consume_front(kHasGroups);
    text = rest.str();
  }
  const std::vector<Team> teams = BRAID_TRY(compareCollectives(all));
  if (!prepared_->messages_)
    return unsupported("rank {}: expected a backend that sends messages, for other ranks have some "
                       "for another host",
                       plan_.rank);
  Status opened = prepared_->messages_->openTeams(teams, control_, transferMode_);
  const auto between = firstBetweenHosts(plan_);
  return between && !sendsMessages()
             ? opened.annotated(
                   fmt::format("between hosts, for {}", describeOrigin(plan_, between->first)))
             : opened;
}

/// A library connects ranks when they first send each other something of that kind and size. So
/// each group and collective is issued once, in order, while nothing else runs: then no run
/// connects, and any run can be captured. Tensors of the caller's are not there yet: what stands in
/// for them is read and overwritten, and so are the arenas, which hold nothing yet.
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
  Status status = prepared_->messages_->tryConnections(transferMode_);
  if (status.isOk())
    status = device_.synchronize();
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
  size_t last = command - 1; // that is no await
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
}

/// Different buffers are different memory, as far as a run goes, unless one takes the place of
/// another in the private arena.
bool Binder::areDisjoint(uint32_t first, uint32_t count) const {
  struct Side {
    Prepared::Operand operand;
    int64_t bytes;
    bool isWrite;
  };
  std::vector<Side> sides;
  auto isPrivate = [&](uint32_t base) {
    return base < plan_.buffers.size() && plan_.buffers[base].kind == BufferKind::Device;
  };
  auto offsetOf = [&](const Side &side) { // in the private arena, if that is where it is
    const uint32_t base = side.operand.base;
    return side.operand.offset + (isPrivate(base) ? plan_.buffers[base].offset : 0);
  };
  auto mayMeet = [&](const Side &a, const Side &b) {
    const uint32_t baseOfA = a.operand.base, baseOfB = b.operand.base;
    const bool isSame = baseOfA == baseOfB || (isPrivate(baseOfA) && isPrivate(baseOfB));
    return isSame && (a.isWrite || b.isWrite) && offsetOf(a) < offsetOf(b) + b.bytes &&
           offsetOf(b) < offsetOf(a) + a.bytes;
  };
  for (uint32_t i = first; i < first + count; ++i) {
    const Command &command = plan_.commands[i];
    if (command.kind != CommandKind::Copy)
      continue;
    const Prepared::Operand *operands = &prepared_->operands_[prepared_->bound_[i].firstOperand];
    const Side dst{operands[0], command.dst.bytes, true};
    const Side src{operands[1], command.dst.bytes, false};
    for (const Side &other : sides)
      if (mayMeet(dst, other) || mayMeet(src, other))
        return false;
    sides.push_back(dst);
    sides.push_back(src);
  }
  return true;
}

/// In two steps: a rank frees what no peer has mapped any more. `unused` has what each names.
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

/// `choices` are encoded; all ranks have the same, or hear of it: else they would meet in different
/// calls next.
///
/// When all ranks have met, each with nothing left to do, no copy and no signal of a program that
/// has gone is under way to anyone, not even one that nobody awaits; and no peer touches the memory
/// for the next program before it has been told where it is, which comes after the device has
/// zeroed it.
static Status recycle(Device &device, ControlPlane &control, const std::string &choices,
                      bool isAll) {
  // A device that cannot prepare now, because its stream is being captured, has to say so before it
  // is asked to wait: that would spoil the capture, and give another reason.
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

/// Ranks that want memory of different kinds, or connections, would meet in different calls.
static std::string encode(TransferMode mode) {
  return encodeChoices({{"memory", name(mode.memory).str()},
                        {"ctas", std::to_string(mode.ctas.count)},
                        {"cta-policy", name(mode.ctas.policy).str()}});
}

Status giveBack(Device &device, ControlPlane &control) {
  const Status status =
      recycle(device, control, encodeChoices({{"call", "giveBack"}}), /*isAll=*/true);
  if (!status.isOk())
    control.abort(status);
  return status;
}

/// Checks the choices about messages.
static Status checkMessages(const Plan &plan, TransferMode mode) {
  if (mode.ctas != Ctas() && !plan.mayHaveMessages())
    return unsupported("{}: expected transport=messages", mode.ctas.count ? "ctas" : "cta-policy");
  if (mode.memory == MemoryFrom::NcclRegistered && plan.transport != Transport::Messages)
    return unsupported("memory=nccl-registered: expected transport=messages");
  if (mode.ctas.policy == CtaPolicy::Zero && mode.memory != MemoryFrom::Nccl)
    return unsupported("cta-policy=zero: expected memory=nccl, for copy engines work on windows");
  return Status::ok();
}

Status checkCapabilities(const Plan &plan, Device &device, TransferMode mode) {
  BRAID_TRY(checkMessages(plan, mode));
  if (plan.transport == Transport::Messages) {
    const bool hasMemory = mode.memory == MemoryFrom::Default || mode.memory == MemoryFrom::Nccl ||
                           mode.memory == MemoryFrom::NcclRegistered;
    if (!device.messages())
      return unsupported("expected a backend that sends messages");
    if (!mode.movesAs(TransferMode()) || !hasMemory)
      return unsupported("expected no choice of who copies and who signals, and no memory but "
                         "that of NCCL: messages are sent");
    return Status::ok();
  }
  const PeerMemory *peers = device.peerMemory();
  if (!peers)
    return unsupported("expected a backend with memory that peers reach");
  if (const auto between = firstBetweenHosts(plan); between && !device.messages())
    return unsupported("{}: ranks {} and {} are on different hosts: expected a backend that sends "
                       "messages",
                       place(plan, between->first), plan.rank, between->second);
  if (!peers->offers(mode))
    return unsupported("this backend has one way to copy, one to signal and memory of one kind, "
                       "and no choice of others");
  return Status::ok();
}

Result<std::unique_ptr<Prepared>> prepare(const Plan &plan, Device &device, ControlPlane &control,
                                          TransferMode transferMode, UnknownGemms unknown) {
  if (control.size() != plan.ranks || control.rank() != plan.rank)
    return badInput("the plan is for rank {} of {}, but this is rank {} of {}", plan.rank,
                    plan.ranks, control.rank(), control.size());
  Status mine = checkCapabilities(plan, device, transferMode);
  if (mine.isOk())
    mine = recycle(device, control, encode(transferMode), /*isAll=*/false);
  if (!mine.isOk()) {
    control.abort(mine);
    return mine;
  }
  Binder binder(plan, device, control, transferMode, unknown);
  mine = binder.bind();
  if (!mine.isOk()) {
    control.abort(mine);
    return mine;
  }
  // Nobody runs before everybody is prepared.
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
    return unsupported("no graphs here");
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
  assert(graph_ && "capture() comes first");
  replay(*graph_);
}

void Prepared::issueAll(llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs) {
  assert(inputs.size() == plan_->inputs.size() && outputs.size() == plan_->outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    bases_[plan_->inputs[i]] =
        const_cast<void *>(inputs[i]); // only ever read, the verifier saw to it
  for (size_t i = 0; i < outputs.size(); ++i)
    bases_[plan_->outputs[i]] = outputs[i];
  const uint32_t count = static_cast<uint32_t>(plan_->commands.size());
  for (uint32_t index = 0; index < count; index += batches_[index].count)
    if (isBatchable(plan_->commands[index].kind))
      issueBatch(index, batches_[index]);
    else
      issue(index, plan_->commands[index]);
}

void Prepared::issueBatch(uint32_t first, const Batch &batch) {
  steps_.clear();
  stepSums_.clear();
  for (uint32_t index = first; index < first + batch.count; ++index) {
    const Command &command = plan_->commands[index];
    const Bound &bound = bound_[index];
    const bool copies = command.kind == CommandKind::Copy;
    const bool adds = command.kind == CommandKind::Sum;
    if (adds)
      stepSums_.push_back(sumArgs(index));
    steps_.push_back({command.kind, index, bound.flag, copies ? at(index, 0) : nullptr,
                      copies ? at(index, 1) : nullptr, copies ? command.dst.bytes : 0,
                      adds ? &stepSums_.back() : nullptr, bound.published});
  }
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
    return compute_->matmul(command.stream, tag, matmulArgs(index));
  case CommandKind::Sum:
    return compute_->sum(command.stream, tag, sumArgs(index));
  case CommandKind::Pointwise:
    return compute_->pointwise(command.stream, tag, pointwiseArgs(index));
  case CommandKind::Group:
    return issueGroup(index);
  case CommandKind::Collective:
    return messages_->collective(command.stream, tag, collectiveArgs(index));
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

MatmulArgs Prepared::matmulArgs(uint32_t index) const {
  const PlanMatmul &shape = plan_->matmuls[plan_->commands[index].matmul];
  const void *bias = shape.bias.bytes == 0 ? nullptr : at(index, 2);
  const void *addend = shape.addend.bytes == 0 ? nullptr : at(index, 3);
  return {shape.dtype, shape.transposeB, shape.m,        shape.n,
          shape.k,     at(index, 0),     at(index, 1),   bias,
          addend,      at(index, 4),     shape.overlaps, shape.resultType()};
}

SumArgs Prepared::sumArgs(uint32_t index) const {
  const PlanSum &sum = plan_->sums[plan_->commands[index].sum];
  const int64_t biasCount = sum.bias.bytes / sizeOf(sum.dtype);
  const void *bias = biasCount == 0 ? nullptr : at(index, 1);
  return {sum.dtype, sum.partial, sum.elements(), sum.count,  sum.stride,    at(index, 0),
          bias,      biasCount,   at(index, 2),   sum.result, sum.keepsParts};
}

PointwiseArgs Prepared::pointwiseArgs(uint32_t index) const {
  const PlanPointwise &pointwise = plan_->pointwise[plan_->commands[index].pointwise];
  PointwiseArgs args{pointwise.dtype,
                     pointwise.elements(),
                     at(index, 0),
                     {pointwise.first.dtype, at(index, 1)},
                     static_cast<uint32_t>(pointwise.steps.size()),
                     {}};
  for (size_t i = 0; i < pointwise.steps.size(); ++i) {
    const auto &[function, operand] = pointwise.steps[i];
    args.steps[i] = {function, {operand.dtype, isBinary(function) ? at(index, 2 + i) : nullptr}};
  }
  return args;
}

void Prepared::issueGroup(uint32_t index) {
  const Command &command = plan_->commands[index];
  group_.clear();
  for (const PlanMessage &message : plan_->groups[command.group])
    group_.push_back({message.direction, message.peer, message.dtype, at(index, group_.size()),
                      message.range.bytes});
  messages_->group(command.stream, {plan_, index, epoch_}, group_);
}

CollectiveArgs Prepared::collectiveArgs(uint32_t index) const {
  const PlanCollective &c = plan_->collectives[plan_->commands[index].collective];
  return {c.kind,       c.reduction,  c.dtype,     c.team,     c.root,
          at(index, 0), at(index, 1), c.dst.bytes, c.src.bytes};
}

} // namespace braid
