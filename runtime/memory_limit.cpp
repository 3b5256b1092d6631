//===- runtime/memory_limit.cpp - checks the available memory ---------------------------------===//

#include "runtime/memory_limit.h"

#include "ir/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace braid {
namespace {

struct Limit {
  uint64_t left; ///< bytes
  const char *name;
  bool isAddressSpace;
};

/// Returns the number that follows the word `key` in a file, or the number at its start if `key` is
/// empty. Returns nullopt if the file is missing, or if there is no number (for example, "max").
std::optional<uint64_t> numberIn(const std::string &path, llvm::StringRef key = "") {
  std::ifstream file(path);
  for (std::string word; word != key;)
    if (!(file >> word))
      return std::nullopt;
  uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

uint64_t minus(uint64_t limit, uint64_t used) { return limit > used ? limit - used : 0; }

std::optional<uint64_t> leftIn(const std::string &folder) {
  std::optional<uint64_t> limit = numberIn(folder + "/memory.max");
  std::optional<uint64_t> used = numberIn(folder + "/memory.current");
  if (!limit || !used)
    return std::nullopt;
  const auto reclaimable = numberIn(folder + "/memory.stat", "inactive_file");
  return minus(*limit, minus(*used, reclaimable.value_or(0)));
}

std::vector<Limit> limits() {
  std::vector<Limit> found;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    if (std::optional<uint64_t> pages = numberIn("/proc/self/statm"))
      found.push_back({minus(limit.rlim_cur, *pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE))),
                       "ulimit -v", true});
  std::ifstream groups("/proc/self/cgroup");
  const std::string membership(std::istreambuf_iterator<char>(groups), {});
  if (auto left = memoryLeftInGroups(membership, "/sys/fs/cgroup"))
    found.push_back({*left, "cgroup memory limit", false});
  if (auto kilobytes = numberIn("/proc/meminfo", "MemAvailable:"))
    found.push_back({*kilobytes * 1024, "MemAvailable", false});
  return found;
}

} // namespace

/// The limits of all ancestor groups apply as well. Inside a container, the path may name groups
/// that are visible only on the host; the mounted root is then the container's group.
std::optional<uint64_t> memoryLeftInGroups(llvm::StringRef membership, const std::string &root) {
  std::optional<uint64_t> least;
  llvm::StringRef path = membership.split("0::").second.split('\n').first;
  for (path = path.rtrim('/');; path = path.rsplit('/').first) {
    if (std::optional<uint64_t> left = leftIn(root + path.str()))
      least = std::min(*left, least.value_or(*left));
    if (path.empty())
      return least;
  }
}

uint64_t availableMemory() {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const Limit &limit : limits())
    least = std::min(least, limit.left);
  return least;
}

std::string strOfBytes(double bytes) {
  constexpr double kMiB = 1024.0 * 1024.0, kGiB = 1024.0 * kMiB;
  if (bytes < kGiB)
    return fmt::format("{:.0f} MiB", bytes / kMiB);
  return fmt::format("{:.{}f} GiB", bytes / kGiB, bytes < 10 * kGiB ? 1 : 0);
}

Status expectMemory(const MemoryNeed &need, const std::string &forWhat, const std::string &advice) {
  const Limit *tightest = nullptr;
  std::vector<Limit> all = limits();
  auto needOf = [&](const Limit &limit) {
    return limit.isAddressSpace ? need.addressSpace : need.bytes;
  };
  for (const Limit &limit : all)
    if (needOf(limit) > static_cast<double>(limit.left))
      if (!tightest || limit.left < tightest->left)
        tightest = &limit;
  if (!tightest)
    return Status::ok();
  return unsupported("{} about {} of {}, but only {} is available ({}){}", forWhat,
                     strOfBytes(needOf(*tightest)),
                     tightest->isAddressSpace ? "memory addresses" : "memory",
                     strOfBytes(static_cast<double>(tightest->left)), tightest->name,
                     advice.empty() ? "" : "; " + advice);
}

Status expectMemory(double bytes, const std::string &forWhat, const std::string &advice) {
  return expectMemory(MemoryNeed{bytes, bytes}, forWhat, advice);
}

} // namespace braid
