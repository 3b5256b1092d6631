//===- tests/support/faulty_device.cpp - a device that damages one transfer -------------------===//
#include "tests/support/faulty_device.h"

#include <cassert>

namespace braid::test {

namespace {

/// 1 in every element type, in memory that lives as long as the program.
const void *one(DType dtype) {
  static const uint16_t bf16 = 0x3f80, f16 = 0x3c00;
  static const float f32 = 1;
  static const double f64 = 1;
  switch (dtype) {
  case DType::BF16:
    return &bf16;
  case DType::F16:
    return &f16;
  case DType::F32:
    return &f32;
  case DType::F64:
    break;
  }
  return &f64;
}

} // namespace

const char *name(Damage damage) {
  switch (damage) {
  case Damage::Drop:
    return "drop";
  case Damage::Stale:
    return "stale";
  case Damage::Misplaced:
    return "misplaced";
  case Damage::Shifted:
    return "shifted";
  case Damage::OffByOne:
    break;
  }
  return "off by one";
}

FaultyDevice::FaultyDevice(Device &inner, const Plan &plan) : inner_(inner) {
  for (const Command &command : plan.commands) {
    const bool transfers = command.kind == CommandKind::Copy && command.endpoint != kNone;
    transferOf_.push_back(transfers ? static_cast<uint32_t>(transfers_.size()) : kNone);
    if (!transfers)
      continue;
    transfers_.push_back(plan.endpoints[command.endpoint]);
    delivered_.emplace_back(transfers_.back().range.bytes);
  }
}

void FaultyDevice::inject(const Fault &fault) {
  assert(fault.transfer < transfers_.size() && "no such transfer");
  fault_ = fault;
  armed_ = true;
}

bool FaultyDevice::hits(const Transfer &transfer) const {
  return armed_ && transfer.number == fault_.transfer && transfer.tag.run == fault_.run;
}

void FaultyDevice::issueBatch(uint32_t stream, Tag tag, llvm::ArrayRef<BatchedCommand> steps,
                              bool areDisjoint, TransferMode mode) {
  for (const BatchedCommand &step : steps) {
    tag.command = step.command;
    if (step.kind == CommandKind::Copy)
      copyStep(stream, tag, step);
    else
      peers().issueBatch(stream, tag, step, areDisjoint, mode);
  }
}

void FaultyDevice::copyStep(uint32_t stream, Tag tag, const BatchedCommand &step) {
  const uint32_t number = transferOf_[tag.command];
  const Transfer transfer{
      number,    stream, tag, static_cast<char *>(step.dst), static_cast<const char *>(step.src),
      step.bytes};
  if (number == kNone)
    return copyNow(transfer, step.dst, step.src, step.bytes);
  if (hits(transfer))
    return damage(transfer);
  deliver(transfer);
}

void FaultyDevice::copyNow(const Transfer &transfer, void *dst, const void *src, int64_t bytes) {
  const BatchedCommand step{CommandKind::Copy, transfer.tag.command, nullptr, dst, src, bytes};
  peers().issueBatch(transfer.stream, transfer.tag, step, /*areDisjoint=*/true, {});
}

/// The source may be read until the signal that follows on the stream, so it is kept before that.
void FaultyDevice::deliver(const Transfer &t) {
  copyNow(t, t.dst, t.src, t.bytes);
  copyNow(t, delivered_[t.number].data(), t.src, t.bytes);
}

void FaultyDevice::damage(const Transfer &t) {
  ++struck_;
  switch (fault_.damage) {
  case Damage::Drop:
    return;
  case Damage::Stale:
    return copyNow(t, t.dst, delivered_[t.number].data(), t.bytes);
  case Damage::Misplaced:
    return copyNow(t, t.dst, fault_.replacement, t.bytes);
  case Damage::Shifted:
    return shift(t);
  case Damage::OffByOne:
    return addOne(t);
  }
}

void FaultyDevice::shift(const Transfer &t) {
  const int64_t element = sizeOf(transfers_[t.number].dtype);
  const int64_t rest = t.bytes - element;
  copyNow(t, t.dst, t.src + element, rest);
  copyNow(t, t.dst + rest, t.src, element);
}

void FaultyDevice::addOne(const Transfer &t) {
  const DType dtype = transfers_[t.number].dtype;
  copyNow(t, t.dst, t.src, t.bytes);
  char *element = t.dst + fault_.element * sizeOf(dtype);
  PointwiseArgs args{dtype, 1, element, {dtype, element}, 1, {}};
  args.steps[0] = {PointwiseFunction::Add, {dtype, one(dtype)}};
  inner_.compute().pointwise(t.stream, t.tag, args);
}

} // namespace braid::test
