//===- lowering/schedule/knobs.h - the knobs of a schedule ------------------------------------===//
#pragma once

#include "api/status.h"
#include "ir/diagnostics.h"
#include "ir/program.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace braid {

namespace schedule {
#define BRAID_WORDS(Id, accessor, name, applies, help, ...) enum class Id : uint8_t { __VA_ARGS__ };
#define BRAID_DEVICE_WORDS(Id, name, help, ...) enum class Id : uint8_t { __VA_ARGS__ };
#include "lowering/schedule/knobs.def"
} // namespace schedule

enum class Knob : uint8_t {
#define BRAID_KNOB(Id) Id,
#include "lowering/schedule/knobs.def"
};
inline constexpr size_t kKnobCount = 0
#define BRAID_KNOB(Id) +1
#include "lowering/schedule/knobs.def"
    ;

/// Values of KnobRow::applies for knobs that no pass reads, because they affect the whole run.
inline constexpr const char *kTransferMode = "the transfer mode";
inline constexpr const char *kLaunchMode = "the launch mode";

/// A row of knobs.def.
struct KnobRow {
  Knob knob;
  std::string name;
  std::vector<std::string> words; ///< names of values 0, 1, ...; empty for integer knobs
  int64_t least, most;
  std::optional<int64_t> fallback; ///< the default; unset if the device or backend chooses
  std::string applies;             ///< a pass, kTransferMode or kLaunchMode
  std::string help;                ///< one line

  bool isOfRun() const { return applies == kTransferMode || applies == kLaunchMode; }
  /// Returns "one of get, put", "a 64-bit integer of at least 1" or "an integer from 1 to 1024".
  std::string accepted() const;
  bool accepts(int64_t value) const;
  /// Returns the text that parse() accepts for `value`, or "default" if it is unset.
  std::string str(std::optional<int64_t> value) const;
  /// Parses a value. Fails with BadInput: "expected `what` to be ..., got 'text'".
  Result<int64_t> parse(llvm::StringRef text, const std::string &what) const;
};

/// Returns all rows, indexed by Knob.
llvm::ArrayRef<KnobRow> allKnobs();
inline const KnobRow &rowOf(Knob knob) { return allKnobs()[static_cast<size_t>(knob)]; }
/// Returns the row named `name`, or null.
const KnobRow *findKnob(llvm::StringRef name);

} // namespace braid
