//===- lowering/schedule/configuration.h - knob values ----------------------------------------===//
#pragma once

#include "lowering/schedule/knobs.h"

#include <array>
#include <type_traits>

namespace braid {

/// An optional value for each knob. over() fills in unset knobs from another configuration; any
/// knob that is still unset has its default value.
class Configuration {
public:
  std::optional<int64_t> get(Knob knob) const { return values_[static_cast<size_t>(knob)]; }
  Configuration &set(Knob knob, std::optional<int64_t> value) {
    values_[static_cast<size_t>(knob)] = value;
    return *this;
  }
  template <class E>
  requires std::is_enum_v<E> Configuration &set(Knob knob, E value) {
    return set(knob, static_cast<int64_t>(value));
  }

  /// Returns the value of `knob`, or its default if unset, or 0 if it has no default.
  int64_t valueOf(Knob knob) const { return get(knob).value_or(rowOf(knob).fallback.value_or(0)); }
#define BRAID_WORDS(Id, accessor, name, applies, help, ...)                                        \
  schedule::Id accessor() const { return static_cast<schedule::Id>(valueOf(Knob::Id)); }
#define BRAID_IR_WORDS(Id, accessor, name, applies, help, ...)                                     \
  Id accessor() const { return static_cast<Id>(valueOf(Knob::Id)); }
#define BRAID_INTEGER(Id, accessor, name, least, most, fallback, applies, help)                    \
  int64_t accessor() const { return valueOf(Knob::Id); }
#include "lowering/schedule/knobs.def"

  /// Returns this configuration with unset knobs filled in from `base`.
  Configuration over(Configuration base) const;
  /// Returns the name of the preset that differs from this configuration in the fewest fields.
  llvm::StringRef preset() const;
  /// Returns text such as "pairwise;placement=shared;protocol=put;chunks=2": the preset (unless no
  /// field is set), the fields that differ from the preset, and all other knobs that are set.
  std::string str() const;
  /// Parses `[PRESET;]knob=value;...`. `flags` override the preset's fields, but must not
  /// contradict knobs in the text. Fails with BadInput and states what was expected.
  static Result<Configuration> parse(llvm::StringRef text, const Configuration &flags = {});

  bool operator==(const Configuration &) const = default;

private:
  std::array<std::optional<int64_t>, kKnobCount> values_;
};

/// A named combination of values for the schedule fields.
struct Preset {
  llvm::StringRef name;
  Configuration fields;
};
/// Returns all presets, starting with the default.
llvm::ArrayRef<Preset> presets();
bool isPreset(llvm::StringRef name);
/// Returns the knobs that presets set.
llvm::ArrayRef<Knob> presetFields();
/// Returns the names of all presets: "pairwise, ring, ...".
std::string presetNames();

/// The schedule of a fusion: knobs for all stages, and knobs for individual stages.
struct Configurations {
  Configuration all = {};
  struct OfStage {
    std::string tensor; ///< the name of any result of the stage
    Configuration config;
  };
  std::vector<OfStage> stages = {}; ///< each overrides `all`

  /// Parses `ring`, `H=pairwise;chunks=2,Y=ring` or `ring,Y=pairwise`. `flags` apply to all stages
  /// unless the text overrides them. Fails with BadInput if the text is malformed, or sets a
  /// run-wide knob for a single stage.
  static Result<Configurations> parse(llvm::StringRef text, const Configuration &flags = {});
  std::string str() const;
};

} // namespace braid
