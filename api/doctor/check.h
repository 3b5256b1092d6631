//===- api/doctor/check.h - what a check is, and what it finds --------------------------------===//
//
// A check has a name, the lines that it can print, and a function that looks at facts and prints
// some of them. Texts are the table's; the function fills in what differs.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/doctor/facts.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <cassert>

namespace braid::doctor {

enum class Severity : uint8_t {
  Ok,
  Note,    ///< programs run, but slower than they could, or not in every way
  Problem, ///< stops programs here from running
};
/// "ok", "note", "problem".
inline const char *strOf(Severity severity) {
  constexpr const char *kNames[] = {"ok", "note", "problem"};
  return kNames[static_cast<size_t>(severity)];
}

/// A line that a check can print. Texts are formats, {0}, {1}, ..., of the same values; `advice`
/// may be empty.
struct LineText {
  const char *id; ///< unlike the check's others
  Severity severity;
  const char *seen;
  const char *advice;
};

/// Values of variables and what libraries say get into lines: bytes other than printable ASCII are
/// escaped, "\\x1B", so that none moves a terminal's cursor.
std::string forTerminal(const std::string &text);

/// A line that was printed.
struct Finding {
  std::string check, line; ///< names from the table
  Severity severity = Severity::Ok;
  std::string seen, advice;
  std::vector<int64_t> ranks = {}; ///< of a job that find it; empty: all, or no job

  /// "power.capped"
  std::string id() const { return check + "." + line; }
};

class Lines;

/// A run that failed.
struct Failure {
  StatusCode code = StatusCode::Unsupported;
  std::string message;
  bool isOnGpus = false;

  bool mentions(llvm::ArrayRef<llvm::StringRef> parts) const {
    return llvm::any_of(
        parts, [&](llvm::StringRef part) { return llvm::StringRef(message).contains(part); });
  }
};

struct Check {
  const char *name;
  bool needsGpu = false; ///< is left out where there is none
  std::vector<LineText> lines;
  void (*look)(const Facts &facts, Lines &lines) = nullptr;
  /// Whether its problems would make a run fail like that. Null: none would.
  bool (*explains)(const Failure &failure) = nullptr;
};

/// Takes what a check prints.
class Lines {
public:
  Lines(const Check &check, std::vector<Finding> &findings) : check_(check), findings_(findings) {}

  /// Prints the line of that id.
  template <class... Args> void add(llvm::StringRef id, const Args &...args) {
    const auto line =
        llvm::find_if(check_.lines, [&](const LineText &each) { return id == each.id; });
    assert(line != check_.lines.end() && "a check prints only lines of its own");
    auto fill = [&](const char *text) {
      return forTerminal(fmt::vformat(text, fmt::make_format_args(args...)));
    };
    findings_.push_back(
        {check_.name, line->id, line->severity, fill(line->seen), fill(line->advice)});
    ++count_;
  }
  /// Lines so far.
  size_t count() const { return count_; }

private:
  const Check &check_;
  std::vector<Finding> &findings_;
  size_t count_ = 0;
};

// The parts of the table, each in a file of its own.
std::vector<Check> driverChecks();
std::vector<Check> deviceChecks();
std::vector<Check> pairChecks();
std::vector<Check> processChecks();
std::vector<Check> environmentChecks();
std::vector<Check> jobChecks();

/// All of them, in the order in which they are printed.
const std::vector<Check> &allChecks();

/// What all checks find.
std::vector<Finding> runChecks(const Facts &facts);

/// The problem that explains the failure, by the first check that does; nothing if none does.
std::optional<Finding> explain(const Failure &failure, const Facts &facts);

// -- For texts. --

/// NVML's numbers of the GPUs that CUDA_VISIBLE_DEVICES does not hide, in the order of CUDA's. By
/// what CUDA says, else by what the variable names.
std::vector<size_t> shownGpus(const Facts &facts);
/// Whether that variable hides the GPU at this PCI address.
bool isHidden(const Facts &facts, const std::string &address);
/// CUDA's number of the GPU at this PCI address; nothing if CUDA does not show it.
std::optional<int64_t> cudaNumberOf(const Facts &facts, const std::string &address);

/// "GPU 0 (0000:18:00.0)", by CUDA's number, or, as long as CUDA shows none, NVML's. `index` is
/// NVML's.
std::string gpuName(const Facts &facts, size_t index);
/// A process may have fewer addresses than CUDA reserves, which then finds no GPU.
bool isShortOfAddresses(const Facts &facts);

/// "13.0" of 13000.
std::string cudaVersionText(int64_t version);

} // namespace braid::doctor
