//===- runtime/plan/specialize.cpp - Program -> Plan for one rank -----------------------------===//

#include "runtime/plan/specialize.h"

#include "ir/module.h"
#include "runtime/plan/plan_parts.h"
#include "runtime/plan/specializer.h"

#include "llvm/Support/xxhash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace braid {
namespace {

int64_t product(llvm::ArrayRef<int64_t> extents) { return *elementCount(extents); }

Shape concatenated(llvm::ArrayRef<int64_t> first, llvm::ArrayRef<int64_t> second) {
  Shape shape(first.begin(), first.end());
  shape.append(second.begin(), second.end());
  return shape;
}

} // namespace

std::string Specializer::str(const View &view) {
  return fmt::format("{}[{}]", name(view.dtype).str(),
                     fmt::join(view.shape.begin(), view.shape.end(), ", "));
}

//===- The walk -------------------------------------------------------------------------------===//

Specializer::Specializer(const Program &program, int64_t rank, Diagnostics &diags,
                         Transport transport)
    : program_(program), diags_(diags) {
  plan_.program = program.name();
  plan_.sourceName = diags.fileName();
  plan_.text = braid::str(program);
  plan_.fingerprint = llvm::xxHash64(plan_.text);
  plan_.rank = rank;
  plan_.ranks = program.ranks();
  plan_.ranksPerHost = program.ranksPerHost();
  plan_.transport = transport;
  plan_.streams.push_back("main");
  loops_.resize(static_cast<size_t>(program.scalars().loopIndexCount()));
}

Result<Plan> Specializer::run() {
  lastEvent_.assign(1, kNone);
  addParameters(program_.params(), BufferKind::Input, plan_.inputs);
  addParameters(program_.results(), BufferKind::Output, plan_.outputs);
  if (!visitBlock(program_.body())) {
    if (!unsupported_.isOk())
      return unsupported_;
    return Status(StatusCode::BadInput, "@" + program_.name() + " has no plan");
  }
  endGroup();
  plan_.symmetricBytes = symmetric_.size();
  plan_.deviceBytes = device_.size();
  plan_.channels = static_cast<uint32_t>(channels_.size());
  plan_.flags = static_cast<uint32_t>(plan_.endpoints.size());
  finishEvents();
  markOverlaps();
  markUnreadParts(plan_);
  shrinkToFit(plan_);
  return std::move(plan_);
}

/// Counts iterations as well as nodes, because unrolling a billion empty ones would seem to hang.
bool Specializer::countStep(const Op &op) {
  return ++steps_ <= kMaxSteps || error(op) << "the program unrolls to more than " << kMaxSteps
                                            << " steps per rank";
}

void Specializer::addParameters(llvm::ArrayRef<std::unique_ptr<Value>> values, BufferKind kind,
                                std::vector<uint32_t> &numbers) {
  for (const auto &value : values) {
    View whole{static_cast<uint32_t>(plan_.buffers.size()), 0, value->type.dtype, {}};
    for (const Scalar *extent : value->type.shape)
      whole.shape.push_back(extent->value());
    plan_.buffers.push_back(
        {kind, whole.bytes(), static_cast<int64_t>(numbers.size()), value->name});
    numbers.push_back(whole.buffer);
    views_[value.get()] = std::move(whole);
  }
}

bool Specializer::visitBlock(const Block &block) {
  for (const Op &op : block)
    if (!countStep(op) || !visit(op))
      return false;
  return true;
}

bool Specializer::visitFor(const ForOp &op) {
  int64_t begin = 0, end = 0;
  if (!evaluate(op, op.begin, "the start of the loop", begin) ||
      !evaluate(op, op.end, "the end of the loop", end))
    return false;
  tripStack_.push_back(0);
  for (int64_t i = begin; i < end; ++i) {
    loops_[static_cast<size_t>(op.index->value())] = i;
    tripStack_.back() = i;
    originOp_ = nullptr;
    if (!countStep(op) || !visitBlock(op.body))
      return false;
  }
  tripStack_.pop_back();
  originOp_ = nullptr;
  return true;
}

bool Specializer::visitIf(const IfOp &op) {
  int64_t isTrue = 0;
  if (!evaluate(op, op.condition, "the condition", isTrue))
    return false;
  return visitBlock(isTrue ? op.thenBlock : op.elseBlock);
}

//===- Memory ---------------------------------------------------------------------------------===//

bool Specializer::visitAllocate(const AllocateOp &op) {
  View whole{static_cast<uint32_t>(plan_.buffers.size()), 0, op.result.type.dtype, {}};
  if (!concreteShape(op, op.result.type, whole.shape))
    return false;
  bool isSymmetric = op.space == MemorySpace::Symmetric;
  int64_t offset = (isSymmetric ? symmetric_ : device_).allocate(whole.bytes(), current_);
  if (offset < 0)
    return error(op) << "the buffers of a rank exceed a 64-bit address space";
  plan_.buffers.push_back({isSymmetric ? BufferKind::Symmetric : BufferKind::Device, whole.bytes(),
                           offset, op.result.name});
  views_[&op.result] = std::move(whole);
  return true;
}

bool Specializer::visitDeallocate(const DeallocateOp &op) {
  endGroup();
  const PlanBuffer &buffer = plan_.buffers[view(op.buffer).buffer];
  plan_.releases.push_back({view(op.buffer).buffer, static_cast<uint32_t>(plan_.commands.size()),
                            current_, originOf(op)});
  lastEvent_[current_] = kNone; // a previously recorded event does not cover the release
  // Symmetric memory is never reused, because peers may still access it.
  if (buffer.kind == BufferKind::Device)
    device_.release(buffer.offset, buffer.bytes, current_);
  return true;
}

bool Specializer::visitSelect(const SelectOp &op) {
  View part = view(op.tensor);
  int64_t index = 0;
  if (!evaluate(op, op.index, "the index", index))
    return false;
  if (index < 0 || index >= part.shape.front())
    return error(op) << "index " << op.index->str() << " is " << index
                     << ", but the leading axis of " << str(part) << " has extent "
                     << part.shape.front() << trips();
  part.shape.erase(part.shape.begin());
  part.offset += index * part.bytes();
  views_[&op.result] = std::move(part);
  return true;
}

bool Specializer::visitSlice(const SliceOp &op) {
  View part = view(op.tensor);
  if (!cutRange(op, op.begin, op.end, part))
    return false;
  views_[&op.result] = std::move(part);
  return true;
}

/// Restricts `part` to a possibly empty range of its leading axis.
bool Specializer::cutRange(const Op &op, const Scalar *first, const Scalar *last, View &part) {
  int64_t begin = 0, end = 0;
  if (!evaluate(op, first, "the start of the slice", begin) ||
      !evaluate(op, last, "the end of the slice", end))
    return false;
  const int64_t extent = part.shape.front();
  if (begin < 0 || begin > extent || end > extent)
    return error(op) << "the range is [" << begin << " .. " << end << "), but the leading axis of "
                     << str(part) << " has extent " << extent << trips();
  part.shape.front() = 1;
  part.offset += begin * part.bytes();
  part.shape.front() = std::max<int64_t>(end - begin, 0);
  return true;
}

bool Specializer::visitFlatten(const FlattenOp &op) {
  View whole = view(op.tensor);
  whole.shape = concatenated({whole.shape[0] * whole.shape[1]},
                             llvm::ArrayRef<int64_t>(whole.shape).drop_front(2));
  views_[&op.result] = std::move(whole);
  return true;
}

//===- Local work -----------------------------------------------------------------------------===//

bool Specializer::visitSet(const SetOp &op) {
  const View &dst = view(op.dst), &src = view(op.src);
  if (!checkShape(op, "the source", src, dst.shape) || !checkDistinct(op, dst, {&src}))
    return false;
  if (dst.isEmpty())
    return true;
  return emit(
      {.kind = CommandKind::Copy, .origin = originOf(op), .dst = dst.range(), .src = src.range()});
}

bool Specializer::visitSum(const SumOp &op) {
  const View &dst = view(op.dst), &parts = view(op.parts);
  const View *bias = op.bias ? &view(op.bias) : nullptr;
  View part = parts;
  part.shape.erase(part.shape.begin());
  const int64_t stride = part.bytes();
  if (op.begin && !cutRange(op, op.begin, op.end, part))
    return false;
  const int64_t count = parts.shape.front();
  if (count < 1)
    return error(op) << "expected at least one part to add, got none" << trips();
  Range all = part.range();
  all.bytes += (count - 1) * stride;
  auto axes = llvm::ArrayRef<int64_t>(dst.shape);
  if (!checkShape(op, "the result", dst, part.shape) ||
      (bias && !checkShape(op, "the bias", *bias, axes.take_back(bias->shape.size()))) ||
      !checkDistinct(op, dst, {&parts, bias ? bias : &parts}))
    return false;
  if (dst.isEmpty())
    return true;
  return emitSum({op.elementType(), parts.dtype, count, stride, dst.range(), all,
                  bias ? bias->range() : Range{}, dst.dtype},
                 originOf(op));
}

bool Specializer::emitSum(const PlanSum &sum, uint32_t origin) {
  plan_.sums.push_back(sum);
  return emit({.kind = CommandKind::Sum,
               .origin = origin,
               .sum = static_cast<uint32_t>(plan_.sums.size()) - 1});
}

bool Specializer::visitPointwise(const PointwiseOp &op) {
  const View &dst = view(op.dst);
  auto operandOf = [&](const Value *value) {
    return PlanPointwise::Operand{view(value).dtype, view(value).range()};
  };
  auto fits = [&](const Value *value) {
    return checkShape(op, "an operand", view(value), dst.shape) &&
           checkDistinct(op, dst, {&view(value)});
  };
  PlanPointwise pointwise{dst.dtype, dst.range(), operandOf(op.first), {}};
  if (!fits(op.first))
    return false;
  for (const PointwiseStep<Value *> &step : op.steps) {
    if (step.operand && !fits(step.operand))
      return false;
    pointwise.steps.push_back(
        {step.function, step.operand ? operandOf(step.operand) : PlanPointwise::Operand()});
  }
  if (dst.isEmpty())
    return true;
  plan_.pointwise.push_back(std::move(pointwise));
  return emit({.kind = CommandKind::Pointwise,
               .origin = originOf(op),
               .pointwise = static_cast<uint32_t>(plan_.pointwise.size()) - 1});
}

bool Specializer::visitMatmul(const MatmulOp &op) {
  PlanMatmul gemm{};
  return gemmOf(op, gemm) && (gemm.c.bytes == 0 || emitGemm(gemm, originOf(op)));
}

bool Specializer::gemmOf(const MatmulOp &op, PlanMatmul &gemm) {
  const View &dst = view(op.dst), &a = view(op.a), &b = view(op.b);
  const View *bias = op.bias ? &view(op.bias) : nullptr;
  const View *addend = op.addend ? &view(op.addend) : nullptr;
  const size_t count = contractedAxes(a.shape.size(), b.shape.size(), dst.shape.size());
  const size_t first = op.transposeB ? b.shape.size() - count : 0;
  const auto shape = llvm::ArrayRef<int64_t>(a.shape);
  const auto rows = shape.drop_back(count), contracted = shape.take_back(count);
  auto columns = llvm::ArrayRef<int64_t>(b.shape);
  columns = op.transposeB ? columns.drop_back(count) : columns.drop_front(count);
  if (!checkContracted(op, a, rows.size(), b, first, count) ||
      (bias && !checkShape(op, "the bias", *bias, columns)) ||
      !checkShape(op, "the result", dst, concatenated(rows, columns)) ||
      !checkDistinct(op, dst, {&a, &b, bias ? bias : &b}) ||
      (addend && (!checkShape(op, "the addend", *addend, dst.shape) ||
                  (addend->range() != dst.range() && !checkDistinct(op, dst, {addend})))))
    return false;
  gemm = {a.dtype,       product(rows), product(columns), product(contracted),
          op.transposeB, a.range(),     b.range(),        dst.range()};
  if (bias)
    gemm.bias = bias->range();
  if (addend)
    gemm.addend = addend->range();
  if (dst.dtype != a.dtype)
    gemm.partial = dst.dtype;
  return true;
}

/// Checks that `count` axes, starting at `firstA` and `firstB`, have equal, nonzero extents.
bool Specializer::checkContracted(const Op &op, const View &a, size_t firstA, const View &b,
                                  size_t firstB, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (a.shape[firstA + i] != b.shape[firstB + i])
      return error(op) << "cannot contract extent " << a.shape[firstA + i] << " of " << str(a)
                       << " with extent " << b.shape[firstB + i] << " of " << str(b) << trips();
    else if (a.shape[firstA + i] == 0)
      return error(op) << "cannot contract an empty axis of " << str(a) << trips();
  return true;
}

/// Sets `gemm` to the GEMM that computes the data that `op` sends.
bool Specializer::gemmOf(const P2POp &op, PlanMatmul &gemm) {
  View sent{kPeerBuffer, 0, op.product.type.dtype, {}};
  if (!concreteShape(op, op.product.type, sent.shape))
    return false;
  if (!byteCount(sent.dtype, sent.shape))
    return error(op) << "the size of " << str(sent) << " in bytes overflows 64 bits" << trips();
  views_[&op.product] = std::move(sent);
  return gemmOf(*op.gemm, gemm);
}

bool Specializer::emitGemm(PlanMatmul gemm, uint32_t origin, uint32_t endpoint) {
  plan_.matmuls.push_back(gemm);
  return emit({.kind = CommandKind::Matmul,
               .origin = origin,
               .endpoint = endpoint,
               .matmul = static_cast<uint32_t>(plan_.matmuls.size()) - 1});
}

//===- Streams --------------------------------------------------------------------------------===//

bool Specializer::visitSynchronize(const SynchronizeOp &op) {
  uint32_t other = 0;
  if (!stream(op, op.stream, other))
    return false;
  if (other == current_)
    return true;
  originOf(op);
  uint32_t event = eventBehind(other);
  return emit({.kind = CommandKind::WaitEvent, .origin = originOf(op), .event = event});
}

bool Specializer::visitGetCurrentStream(const GetCurrentStreamOp &op) {
  namedStreams_[&op.result] = current_;
  return true;
}

bool Specializer::visitSetCurrentStream(const SetCurrentStreamOp &op) {
  return stream(op, op.stream, current_);
}

bool Specializer::stream(const Op &op, const StreamRef &ref, uint32_t &number) {
  if (ref.named) {
    number = namedStreams_.find(ref.named)->second;
    return true;
  }
  int64_t index = 0;
  if (!evaluate(op, ref.index, "the stream's number", index))
    return false;
  if (index < 0 || index >= kMaxStreams)
    return error(op) << "stream " << ref.index->str() << " is " << index << ", expected 0 to "
                     << kMaxStreams - 1 << trips();
  auto [entry, isNew] =
      poolStreams_.try_emplace(index, static_cast<uint32_t>(plan_.streams.size()));
  if (isNew) {
    plan_.streams.push_back(fmt::format("stream({})", index));
    lastEvent_.push_back(kNone);
  }
  number = entry->second;
  return true;
}

/// Returns an event that covers all commands issued to `stream` so far. Reuses the stream's last
/// event if no command has been issued since.
uint32_t Specializer::eventBehind(uint32_t stream) {
  endGroup();
  if (lastEvent_[stream] != kNone)
    return lastEvent_[stream];
  uint32_t event = plan_.events++;
  uint32_t origin = static_cast<uint32_t>(plan_.origins.size()) - 1;
  plan_.commands.push_back(
      {.kind = CommandKind::Record, .stream = stream, .origin = origin, .event = event});
  lastEvent_[stream] = event;
  return event;
}

//===- Helpers --------------------------------------------------------------------------------===//

/// Appends a command to the current stream. Always returns true, for use in visit functions.
bool Specializer::emit(Command command) {
  endGroup();
  append(command);
  return true;
}

/// Appends a command before the posted messages, whose group remains open.
void Specializer::append(Command command) {
  command.stream = current_;
  lastEvent_[current_] = kNone;
  plan_.commands.push_back(command);
}

uint32_t Specializer::siteOf(const Op &op) {
  auto [entry, isNew] = sites_.try_emplace(&op, static_cast<uint32_t>(plan_.sites.size()));
  if (isNew)
    plan_.sites.push_back({op.location(), braid::str(op)});
  return entry->second;
}

uint32_t Specializer::originOf(const Op &op) {
  if (originOp_ != &op) {
    plan_.origins.push_back({siteOf(op), static_cast<uint32_t>(plan_.trips.size()),
                             static_cast<uint32_t>(tripStack_.size())});
    plan_.trips.insert(plan_.trips.end(), tripStack_.begin(), tripStack_.end());
    originOp_ = &op;
  }
  return static_cast<uint32_t>(plan_.origins.size()) - 1;
}

Diagnostics::InFlight Specializer::error(const Op &op) { return diags_.error(op.location()); }

/// Returns the suffix of an error message, for example " on rank 2 (trip 3, 0)".
std::string Specializer::trips() const {
  std::string text = fmt::format(" on rank {}", plan_.rank);
  if (!tripStack_.empty())
    text += fmt::format(" (trip {})", fmt::join(tripStack_, ", "));
  return text;
}

bool Specializer::evaluate(const Op &op, const Scalar *scalar, llvm::StringRef what,
                           int64_t &value) {
  ScalarValue result = braid::evaluate(scalar, {.rank = plan_.rank, .loops = loops_});
  if (!result.isOk())
    return error(op) << what << " " << scalar->str() << " " << describe(result.error) << trips();
  value = result.value;
  return true;
}

bool Specializer::concreteShape(const Op &op, const TensorType &type, Shape &shape) {
  for (const Scalar *extent : type.shape) {
    int64_t value = 0;
    if (!evaluate(op, extent, "the extent", value))
      return false;
    shape.push_back(value);
  }
  return true;
}

bool Specializer::checkShape(const Op &op, llvm::StringRef what, const View &view,
                             llvm::ArrayRef<int64_t> expected) {
  if (llvm::ArrayRef<int64_t>(view.shape) == expected)
    return true;
  View wanted{0, 0, view.dtype, Shape(expected.begin(), expected.end())};
  return error(op) << what << " is " << str(view) << ", expected " << str(wanted) << trips();
}

bool Specializer::checkDistinct(const Op &op, const View &dst,
                                std::initializer_list<const View *> sources) {
  for (const View *source : sources)
    if (overlap(dst.range(), source->range()))
      return error(op) << "the destination overlaps a source in %" << plan_.buffers[dst.buffer].name
                       << trips();
  return true;
}

/// Removes events that no command waits for, and renumbers the remaining events.
void Specializer::finishEvents() {
  std::vector<uint32_t> number(plan_.events, kNone);
  for (const Command &command : plan_.commands)
    if (command.kind == CommandKind::WaitEvent)
      number[command.event] = 0;
  plan_.events = 0;
  rewriteCommands(plan_, [&](Command command, std::vector<Command> &kept) {
    if (command.kind == CommandKind::Record && number[command.event] == kNone)
      return;
    if (command.kind == CommandKind::Record)
      number[command.event] = plan_.events++;
    if (command.event != kNone)
      command.event = number[command.event];
    kept.push_back(command);
  });
}

void Specializer::markOverlaps() {
  std::set<uint32_t> streams;
  for (const Command &command : plan_.commands)
    if (command.kind == CommandKind::Matmul)
      streams.insert(command.stream);
  for (PlanMatmul &gemm : plan_.matmuls)
    gemm.overlaps = streams.size() > 1;
}

Result<Plan> specialize(const Program &program, int64_t rank, Diagnostics &diags,
                        Transport transport) {
  return Specializer(program, rank, diags, transport).run();
}

} // namespace braid
