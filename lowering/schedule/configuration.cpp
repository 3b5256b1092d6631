//===- lowering/schedule/configuration.cpp - knob values --------------------------------------===//

#include "lowering/schedule/configuration.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

Status badText(const std::string &message) { return {StatusCode::BadInput, message}; }

const Preset *findPreset(llvm::StringRef name) {
  const auto *found = llvm::find_if(presets(), [&](const Preset &p) { return p.name == name; });
  return found == presets().end() ? nullptr : found;
}

template <class Row> std::vector<std::string> namesOf(llvm::ArrayRef<Row> rows) {
  std::vector<std::string> names;
  for (const Row &row : rows)
    names.emplace_back(row.name);
  return names;
}

/// Counts the fields that differ. A different value of `transfers` outweighs all other differences,
/// because it changes a schedule the most.
int64_t countDifferences(const Configuration &config, const Preset &preset) {
  int64_t differences = 0;
  for (Knob field : presetFields())
    if (config.valueOf(field) != preset.fields.valueOf(field))
      differences += field == Knob::Transfers ? static_cast<int64_t>(presetFields().size()) : 1;
  return differences;
}

/// Parses `knob=value` into `config`. Fails if the knob is already set.
Status readKnob(llvm::StringRef part, Configuration &config) {
  auto [name, value] = part.split('=');
  const KnobRow *row = findKnob(name);
  const std::vector<std::string> names = namesOf(allKnobs());
  if (!row)
    return badText("expected KNOB=VALUE, where KNOB is one of " + llvm::join(names, ", ") +
                   ", got '" + part.str() + "'" + didYouMean(name, names));
  if (config.get(row->knob))
    return badText("expected " + row->name + " only once, but '" + part.str() + "' sets it again");
  Result<int64_t> number = row->parse(value, row->name);
  if (number)
    config.set(row->knob, *number);
  return number.status();
}

/// Removes a leading `TENSOR=` from a stage's text and returns the tensor's name, or "" if the text
/// applies to all stages.
llvm::StringRef takeTensor(llvm::StringRef &element) {
  auto [tensor, rest] = element.split('=');
  if (tensor.contains(';') || rest.data() == nullptr || rest.empty() || findKnob(tensor))
    return "";
  element = rest;
  tensor.consume_front("%");
  return tensor;
}

Status checkOfStage(const Configurations::OfStage &stage) {
  for (const KnobRow &row : allKnobs())
    if (row.isOfRun() && stage.config.get(row.knob))
      return badText(row.name + " cannot be set for the stage of %" + stage.tensor +
                     ", because it applies to the whole run");
  return Status::ok();
}

} // namespace

std::string presetNames() { return llvm::join(namesOf(presets()), ", "); }

Configuration Configuration::over(Configuration base) const {
  for (size_t i = 0; i < kKnobCount; ++i)
    if (values_[i])
      base.values_[i] = values_[i];
  return base;
}

llvm::StringRef Configuration::preset() const {
  return std::min_element(presets().begin(), presets().end(),
                          [&](const Preset &a, const Preset &b) {
                            return countDifferences(*this, a) < countDifferences(*this, b);
                          })
      ->name;
}

std::string Configuration::str() const {
  const bool hasPreset = llvm::all_of(presetFields(), [&](Knob f) { return get(f).has_value(); });
  std::string text = hasPreset ? preset().str() : "";
  const Configuration said = hasPreset ? findPreset(text)->fields : Configuration();
  for (const KnobRow &row : allKnobs())
    if (get(row.knob) && get(row.knob) != said.get(row.knob))
      text += (text.empty() ? "" : ";") + row.name + "=" + row.str(get(row.knob));
  return text;
}

Result<Configuration> Configuration::parse(llvm::StringRef text, const Configuration &flags) {
  llvm::SmallVector<llvm::StringRef, 8> parts;
  text.split(parts, ';');
  Configuration base, single;
  const llvm::StringRef name = parts.front();
  const bool isNamed = !name.contains('=');
  if (isNamed && !(name.empty() && parts.size() > 1)) { // no preset in ";KNOB=VALUE"
    const Preset *preset = findPreset(name);
    if (!preset)
      return badText("expected one of " + presetNames() + ", got '" + name.str() + "'" +
                     didYouMean(name, namesOf(presets())));
    base = preset->fields;
  }
  const auto knobs = llvm::ArrayRef<llvm::StringRef>(parts).drop_front(isNamed);
  for (llvm::StringRef part : knobs)
    if (Status status = readKnob(part, single); !status.isOk())
      return status;
  for (const KnobRow &row : allKnobs())
    if (single.get(row.knob) &&
        flags.get(row.knob).value_or(*single.get(row.knob)) != *single.get(row.knob))
      return badText("expected " + row.name + "=" + row.str(flags.get(row.knob)) + ", as --" +
                     row.name + " specifies, got '" + text.str() + "'");
  return single.over(flags.over(base));
}

Result<Configurations> Configurations::parse(llvm::StringRef text, const Configuration &flags) {
  Configurations configs{flags};
  bool hasAll = false;
  llvm::SmallVector<llvm::StringRef, 4> elements;
  text.split(elements, ',');
  if (text.empty())
    elements.clear();
  for (llvm::StringRef element : elements) {
    const std::string whole = element.str();
    const std::string tensor = takeTensor(element).str();
    Result<Configuration> config =
        Configuration::parse(element, tensor.empty() ? flags : Configuration());
    if (!config)
      return config.status();
    if (tensor.empty() && hasAll)
      return badText(
          "expected only one schedule for all stages, got a second one, '" + whole + "'" +
          (element.contains('=') ? "; separate knobs with ';', as in ring;chunks=2" : ""));
    hasAll |= tensor.empty();
    if (tensor.empty())
      configs.all = *config;
    else
      configs.stages.push_back({tensor, *config});
  }
  for (const OfStage &stage : configs.stages)
    if (Status status = checkOfStage(stage); !status.isOk())
      return status;
  return configs;
}

std::string Configurations::str() const {
  std::string text = all.str();
  for (const OfStage &stage : stages)
    text += (text.empty() ? "" : ",") + stage.tensor + "=" + stage.config.str();
  return text;
}

} // namespace braid
