//===- backends/cuda/copy_and_signal/rules.cpp - commands that one launch may combine ---------===//

#include "backends/cuda/copy_and_signal.h"

namespace braid::cuda {

bool isAligned(const CopyAndSignal &batch, size_t bytes) {
  for (uint32_t i = 0; i < batch.copyCount; ++i) {
    const CopyAndSignalCopy &copy = batch.copies[i];
    const auto bits = reinterpret_cast<uintptr_t>(copy.dst) |
                      reinterpret_cast<uintptr_t>(copy.src) | static_cast<uintptr_t>(copy.bytes);
    if (bits % bytes != 0)
      return false;
  }
  return true;
}

namespace {

bool overlap(const void *a, int64_t bytesOfA, const void *b, int64_t bytesOfB) {
  const auto *first = static_cast<const char *>(a), *second = static_cast<const char *>(b);
  return first < second + bytesOfB && second < first + bytesOfA;
}

int64_t bytesOfResult(const Sum &sum) { return sum.elements * sizeOf(sum.result); }

bool readsResult(const CopyAndSignalCopy &copy, const Sum &sum) {
  return overlap(sum.dst, bytesOfResult(sum), copy.src, copy.bytes);
}

bool writesResultOrBias(const CopyAndSignalCopy &copy, const Sum &sum) {
  const int64_t biasBytes = sum.bias ? sum.biasElements * sizeOf(sum.element) : 0;
  return overlap(sum.dst, bytesOfResult(sum), copy.dst, copy.bytes) ||
         overlap(sum.bias, biasBytes, copy.dst, copy.bytes);
}

/// Returns true if `copy` writes memory that `sum` reads or writes.
bool writesOfSum(const CopyAndSignalCopy &copy, const Sum &sum) {
  const int64_t partsBytes = (sum.count - 1) * sum.stride + sum.elements * sizeOf(sum.partial);
  return writesResultOrBias(copy, sum) || overlap(sum.parts, partsBytes, copy.dst, copy.bytes);
}

} // namespace

bool canAddAlong(const CopyAndSignal &batch, const Sum &sum) {
  const int64_t wide = widthFor(sum);
  if (!batch.released || batch.copyCount == 0 || sum.count > CopyAndSignal::kMost + 1 ||
      wide == 1 || sum.elements % wide != 0 || !isAligned(batch, 16))
    return false;
  const int64_t bytes = sum.elements / wide * 16; // per part
  for (uint32_t i = 0; i < batch.copyCount; ++i) {
    const int64_t at = batch.copies[i].dst - static_cast<const char *>(sum.parts);
    if (batch.copies[i].bytes != bytes || at < 0 || at % sum.stride != 0 ||
        at / sum.stride >= sum.count)
      return false;
    // A launch does not order its copies relative to the sum's stores or its reads of the bias.
    if (readsResult(batch.copies[i], sum) || writesResultOrBias(batch.copies[i], sum))
      return false;
  }
  return true;
}

bool canGive(const CopyAndSignal &batch, const CopyAndSignalCopy &copy) {
  return batch.sum.elements != 0 && copy.src == batch.sum.dst &&
         copy.bytes == bytesOfResult(batch.sum) &&
         reinterpret_cast<uintptr_t>(copy.dst) % 16 == 0 && !writesOfSum(copy, batch.sum);
}

bool canCopyLast(const CopyAndSignal &batch, const CopyAndSignalCopy &copy) {
  return !readsResult(copy, batch.sum) && !writesOfSum(copy, batch.sum);
}

} // namespace braid::cuda
