//===- lowering/schedule/configuration.h - values for knobs -----------------------------------===//
#pragma once

#include "lowering/schedule/knobs.h"

#include <array>
#include <type_traits>

namespace braid {

/// A value or nothing for each knob. Nothing means the default, or what another one says that this
/// one is laid over.
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

  /// The value, or the default of a knob that has one.
  int64_t valueOf(Knob knob) const { return get(knob).value_or(rowOf(knob).fallback.value_or(0)); }
#define BRAID_WORDS(Id, accessor, name, applies, help, ...)                                        \
  schedule::Id accessor() const { return static_cast<schedule::Id>(valueOf(Knob::Id)); }
#define BRAID_IR_WORDS(Id, accessor, name, applies, help, ...)                                     \
  Id accessor() const { return static_cast<Id>(valueOf(Knob::Id)); }
#define BRAID_INTEGER(Id, accessor, name, least, most, fallback, applies, help)                    \
  int64_t accessor() const { return valueOf(Knob::Id); }
#include "lowering/schedule/knobs.def"

  /// This configuration, with the values of `base` for knobs that it does not set.
  Configuration over(Configuration base) const;
  /// The name of the preset that differs in the fewest fields.
  llvm::StringRef preset() const;
  /// "pairwise;placement=shared;protocol=put;chunks=2": the preset, unless no field has a value,
  /// the fields that differ from it, and the other knobs that have a value.
  std::string str() const;
  /// Reads `[PRESET;]knob=value;...`. `flags` go over the preset's fields; single knobs of the
  /// text may not contradict them. BadInput says what was expected.
  static Result<Configuration> parse(llvm::StringRef text, const Configuration &flags = {});

  bool operator==(const Configuration &) const = default;

private:
  std::array<std::optional<int64_t>, kKnobCount> values_;
};

/// A name that users type for values of the four fields.
struct Preset {
  llvm::StringRef name;
  Configuration fields;
};
/// All of them; the first one is the default.
llvm::ArrayRef<Preset> presets();
bool isPreset(llvm::StringRef name);
/// The knobs that a preset has values for.
llvm::ArrayRef<Knob> presetFields();
/// "pairwise, ring, ..."
std::string presetNames();

/// The schedule of a fusion: knobs for all stages and for single ones.
struct Configurations {
  Configuration all = {};
  struct OfStage {
    std::string tensor; ///< any result of the stage
    Configuration config;
  };
  std::vector<OfStage> stages = {}; ///< each goes over `all`

  /// Reads `ring`, `H=pairwise;chunks=2,Y=ring` or `ring,Y=pairwise`. `flags` hold for all stages
  /// that the text says nothing else for. BadInput, too, if a stage is given a knob of the run.
  static Result<Configurations> parse(llvm::StringRef text, const Configuration &flags = {});
  std::string str() const;
};

} // namespace braid
