//===- api/doctor/process_status.cpp - what Linux says about a process and about bridges ------===//

#include "api/doctor/process_status.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace braid::doctor {
namespace {

template <class Number> std::optional<Number> numberOf(llvm::StringRef text, unsigned base = 10) {
  Number number = 0;
  return text.trim().getAsInteger(base, number) ? std::nullopt : std::optional(number);
}

llvm::SmallVector<llvm::StringRef> wordsOf(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> words;
  llvm::SplitString(text, words);
  return words;
}

/// Of four numbers, real, effective, saved and of files, the second.
std::optional<int64_t> effectiveOf(llvm::StringRef text) {
  const auto words = wordsOf(text);
  return words.size() < 2 ? std::nullopt : numberOf<int64_t>(words[1]);
}

uint32_t littleEndian(llvm::StringRef bytes, size_t offset, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[offset + i])) << (8 * i);
  return value;
}

} // namespace

ProcessStatus parseProcessStatus(llvm::StringRef text) {
  ProcessStatus status;
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  for (llvm::StringRef line : lines) {
    const auto [key, value] = line.split(':');
    if (key == "Seccomp")
      status.seccomp = numberOf<int64_t>(value);
    else if (key == "CapEff")
      status.capabilities = numberOf<uint64_t>(value, 16);
    else if (key == "NSpid")
      status.pidNamespaces = static_cast<int64_t>(wordsOf(value).size());
    else if (key == "Uid")
      status.user = effectiveOf(value);
  }
  return status;
}

std::optional<uint64_t> parseNamespace(llvm::StringRef link, llvm::StringRef kind) {
  if (!link.consume_front(kind) || !link.consume_front(":[") || !link.consume_back("]"))
    return std::nullopt;
  return numberOf<uint64_t>(link);
}

std::optional<bool> redirectsPeers(llvm::StringRef configuration) {
  constexpr size_t kFirst = 0x100, kSize = 0x1000, kControl = 6;
  constexpr uint32_t kAcs = 0x000d, kRedirectsRequests = 0x4, kRedirectsCompletions = 0x8;
  if (configuration.size() < kSize)
    return std::nullopt;
  // A list of capabilities: its header has the id, and where the next one is. One that goes in
  // circles ends, too.
  size_t offset = kFirst;
  for (size_t steps = 0; steps < kSize / 4 && offset >= kFirst && offset + 8 <= kSize; ++steps) {
    const uint32_t header = littleEndian(configuration, offset, 4);
    if ((header & 0xffff) == kAcs) {
      const uint32_t control = littleEndian(configuration, offset + kControl, 2);
      return (control & (kRedirectsRequests | kRedirectsCompletions)) != 0;
    }
    offset = header >> 20;
  }
  return false;
}

VisibleDevices parseVisibleDevices(llvm::StringRef value) {
  VisibleDevices devices;
  llvm::SmallVector<llvm::StringRef> entries;
  value.split(entries, ',');
  for (llvm::StringRef entry : entries) {
    entry = entry.trim();
    const bool isName = entry.take_front(4) == "GPU-" || entry.take_front(4) == "MIG-";
    if (!isName && !numberOf<uint32_t>(entry)) {
      devices.wrong = entry.str();
      break;
    }
    devices.named.push_back(entry.str());
  }
  return devices;
}

} // namespace braid::doctor
