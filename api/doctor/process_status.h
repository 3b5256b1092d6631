//===- api/doctor/process_status.h - what Linux says about a process and about bridges --------===//
//
// Parsers of what the kernel and devices give. Whatever cannot be understood is not known.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace braid::doctor {

/// /proc/self/status.
struct ProcessStatus {
  std::optional<int64_t> seccomp;       ///< 0: off, 1: strict, 2: filtered
  std::optional<uint64_t> capabilities; ///< those in effect, a bit each
  std::optional<int64_t> pidNamespaces; ///< in which it has a number, as far as this /proc shows
  std::optional<int64_t> user;          ///< the one in effect

  bool hasCapability(unsigned number) const {
    return capabilities && (*capabilities >> number & 1) != 0;
  }
};
inline constexpr unsigned kCapSysPtrace = 19, kCapSysAdmin = 21, kCapSysResource = 24;

ProcessStatus parseProcessStatus(llvm::StringRef text);

/// 4026531836 of "pid:[4026531836]".
std::optional<uint64_t> parseNamespace(llvm::StringRef link, llvm::StringRef kind);
/// Linux gives the first namespace of a kind always the same number.
inline constexpr uint64_t kFirstPidNamespace = 0xeffffffc, kFirstIpcNamespace = 0xefffffff;

/// Whether a bridge sends what one device below it writes to another on to the root complex: the
/// access control services (ACS) in its configuration space, of which unprivileged users see the
/// first bytes only. Nothing: not known.
std::optional<bool> redirectsPeers(llvm::StringRef configuration);

/// The entries of CUDA_VISIBLE_DEVICES that CUDA looks at: those before the first that is none.
struct VisibleDevices {
  std::vector<std::string> named; ///< "0", "GPU-1234", "MIG-..."
  std::string wrong;              ///< the first that is no number and no name of a device
};
VisibleDevices parseVisibleDevices(llvm::StringRef value);

} // namespace braid::doctor
