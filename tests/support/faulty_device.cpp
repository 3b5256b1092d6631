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

void FaultyDevice::copy(uint32_t stream, Tag tag, void *dst, const void *src, int64_t bytes) {
  const uint32_t number = transferOf_[tag.command];
  if (number == kNone)
    return inner_.copy(stream, tag, dst, src, bytes);
  const Transfer transfer{
      number, stream, tag, static_cast<char *>(dst), static_cast<const char *>(src), bytes};
  if (hits(transfer))
    return damage(transfer);
  deliver(transfer);
}

/// The source may be read until the signal that follows on the stream, so it is kept before that.
void FaultyDevice::deliver(const Transfer &t) {
  inner_.copy(t.stream, t.tag, t.dst, t.src, t.bytes);
  inner_.copy(t.stream, t.tag, delivered_[t.number].data(), t.src, t.bytes);
}

void FaultyDevice::damage(const Transfer &t) {
  ++struck_;
  switch (fault_.damage) {
  case Damage::Drop:
    return;
  case Damage::Stale:
    return inner_.copy(t.stream, t.tag, t.dst, delivered_[t.number].data(), t.bytes);
  case Damage::Misplaced:
    return inner_.copy(t.stream, t.tag, t.dst, fault_.replacement, t.bytes);
  case Damage::Shifted:
    return shift(t);
  case Damage::OffByOne:
    return addOne(t);
  }
}

void FaultyDevice::shift(const Transfer &t) {
  const int64_t element = sizeOf(transfers_[t.number].dtype);
  const int64_t rest = t.bytes - element;
  inner_.copy(t.stream, t.tag, t.dst, t.src + element, rest);
  inner_.copy(t.stream, t.tag, t.dst + rest, t.src, element);
}

void FaultyDevice::addOne(const Transfer &t) {
  const DType dtype = transfers_[t.number].dtype;
  inner_.copy(t.stream, t.tag, t.dst, t.src, t.bytes);
  inner_.add(t.stream, t.tag, dtype, t.dst + fault_.element * sizeOf(dtype), one(dtype),
             sizeOf(dtype));
}

Result<void *> FaultyDevice::allocate(ArenaKind kind, int64_t bytes) {
  return inner_.allocate(kind, bytes);
}

Status FaultyDevice::reserveStreams(uint32_t count) { return inner_.reserveStreams(count); }

Result<uint32_t> FaultyDevice::createEvents(uint32_t count) { return inner_.createEvents(count); }

Result<std::string> FaultyDevice::exportMemory(void *base) { return inner_.exportMemory(base); }

Status FaultyDevice::warm(const PlanMatmul &shape) { return inner_.warm(shape); }

void FaultyDevice::matmul(uint32_t stream, Tag tag, const MatmulArgs &args) {
  inner_.matmul(stream, tag, args);
}

void FaultyDevice::add(uint32_t stream, Tag tag, DType dtype, void *dst, const void *src,
                       int64_t bytes) {
  inner_.add(stream, tag, dtype, dst, src, bytes);
}

void FaultyDevice::signal(uint32_t stream, Tag tag, void *flag, uint32_t epoch) {
  inner_.signal(stream, tag, flag, epoch);
}

void FaultyDevice::await(uint32_t stream, Tag tag, const void *flag, uint32_t epoch) {
  inner_.await(stream, tag, flag, epoch);
}

void FaultyDevice::record(uint32_t stream, Tag tag, uint32_t event) {
  inner_.record(stream, tag, event);
}

void FaultyDevice::waitEvent(uint32_t stream, Tag tag, uint32_t event) {
  inner_.waitEvent(stream, tag, event);
}

Status FaultyDevice::synchronize() { return inner_.synchronize(); }

std::vector<PendingWait> FaultyDevice::pending() { return inner_.pending(); }

void FaultyDevice::startTrace() { inner_.startTrace(); }

std::vector<Span> FaultyDevice::takeTrace() { return inner_.takeTrace(); }

} // namespace braid::test
