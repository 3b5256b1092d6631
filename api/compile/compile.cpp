//===- api/compile/compile.cpp - compiles a source to the program that every rank runs --------===//

#include "api/compile/compile.h"

#include "ir/failure.h"
#include "runtime/files.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

namespace braid {
namespace {

Status located() { return badInput("the text has errors"); }

/// The selected fusion or program. If both pointers are set, the program is selected.
struct Entry {
  Fusion *fusion = nullptr;
  Program *program = nullptr;
};

Result<Entry> findEntry(const Source &source, const CompileOptions &options) {
  const Module &module = source.module;
  std::vector<std::string> names;
  for (const auto &fusion : module.fusions)
    names.push_back(fusion->name());
  for (const auto &program : module.programs)
    names.push_back(program->name());
  if (options.entry) {
    llvm::StringRef name = *options.entry;
    name.consume_front("@");
    Entry entry{module.findFusion(name), module.findProgram(name)};
    if (entry.fusion || entry.program)
      return entry;
    return badInput("'{}' has no @{}{}", source.diags.fileName(), name.str(),
                    didYouMean(name, names));
  }
  if (module.programs.size() == 1)
    return Entry{nullptr, module.programs.front().get()};
  if (module.programs.empty() && module.fusions.size() == 1)
    return Entry{module.fusions.front().get(), nullptr};
  if (names.empty())
    return badInput("'{}' is empty; expected a fusion or a program", source.diags.fileName());
  return badInput("'{}' contains @{}; specify which one is the entry", source.diags.fileName(),
                  fmt::join(names, ", @"));
}

/// Returns the name of a lowering option that was set, or an empty string. The name is the same on
/// the command line and in C, C++ and Python.
std::string loweringOption(const CompileOptions &options) {
  if (!options.parameters.empty())
    return "parameter " + options.parameters.front().first;
  if (!options.schedule.stages.empty())
    return "schedule";
  for (const KnobRow &row : allKnobs())
    if (!row.isOfRun() && options.schedule.all.get(row.knob))
      return llvm::is_contained(presetFields(), row.knob) ? "schedule" : row.name;
  return options.afterPass ? "print-after" : "";
}

/// Returns "; to lower its fusion, set the entry to NAME" if the source also contains the program's
/// fusion.
std::string otherEntry(const Source &source, const Program &program) {
  const Fusion *fusion = source.module.findFusion(program.implements());
  return fusion ? fmt::format("; to lower its fusion, set the entry to {}", fusion->name()) : "";
}

Result<Compiled> compileProgram(Source &source, Program &program, const CompileOptions &options) {
  if (const std::string option = loweringOption(options); !option.empty())
    return badInput(
        "{} applies to a fusion, but @{} in '{}' is a program, which has already been lowered{}",
        option, program.name(), source.diags.fileName(), otherEntry(source, program));
  if (verify(source.module, source.diags) && options.ranks && *options.ranks != program.ranks())
    source.diags.error(program.location())
        << "expected ranks=" << program.ranks() << ", the size of the program's mesh, got "
        << *options.ranks << otherEntry(source, program);
  if (source.diags.hasErrors())
    return located();
  return Compiled{&source, &program, source.module.findFusion(program.implements()), false,
                  options.reproducible};
}

/// Sets the fusion's parameters to the requested values. Returns false on error.
bool setParameters(Fusion &fusion, const CompileOptions &options, Diagnostics &diags) {
  std::vector<std::string> names;
  for (const FusionParameter &parameter : fusion.parameters())
    names.push_back(parameter.name);
  std::map<llvm::StringRef, int64_t> given;
  for (const auto &[name, value] : options.parameters)
    if (const auto [first, isNew] = given.try_emplace(name, value); !isNew)
      return diags.error(fusion.location())
             << "expected only one value for '" << name << "' of @" << fusion.name() << ", got "
             << first->second << " and " << value;
    else if (!fusion.setParameter(name, value))
      return diags.error(fusion.location()) << "@" << fusion.name() << " has no parameter '" << name
                                            << "'" << didYouMean(name, names);
  return true;
}

bool setRanks(Fusion &fusion, const CompileOptions &options, Diagnostics &diags) {
  if (!options.ranks)
    return true;
  const FusionParameter *parameter = fusion.meshParameter();
  if (!parameter) {
    ScalarValue size = fusion.valueOf(fusion.mesh());
    if (size.isOk() && size.value == *options.ranks)
      return true;
    return diags.error(fusion.meshLocation())
           << "expected ranks=" << fusion.mesh()->str() << ", the size of the mesh, got "
           << *options.ranks
           << "; to choose the number of ranks, make the mesh size a parameter: mesh [0 .. D)";
  }
  for (const auto &[name, value] : options.parameters)
    if (name == parameter->name && value != *options.ranks)
      return diags.error(fusion.meshLocation())
             << "expected " << name << "=" << *options.ranks << ", got " << value << ": " << name
             << " is the mesh size, and ranks=" << *options.ranks;
  return fusion.setParameter(parameter->name, *options.ranks);
}

/// Returns the requested values as text, such as "ranks=3, M=100".
std::string givenValues(const CompileOptions &options) {
  std::string values = options.ranks ? fmt::format("ranks={}", *options.ranks) : "";
  for (const auto &[name, value] : options.parameters)
    values += fmt::format("{}{}={}", values.empty() ? "" : ", ", name, value);
  return values;
}

/// Sets the fusion's parameters and verifies the fusion. If the fusion is valid with its default
/// parameters, the requested values are at fault, so each error message begins with these values.
bool applyParameters(Fusion &fusion, const CompileOptions &options, Diagnostics &diags) {
  Diagnostics asItStands, asAsked;
  verify(fusion, asItStands);
  if (!setParameters(fusion, options, diags) || !setRanks(fusion, options, diags))
    return false;
  if (verify(fusion, asAsked) || asItStands.hasErrors())
    return verify(fusion, diags); // also adds warnings
  for (const Diagnostic &found : asAsked.all())
    if (found.severity == Severity::Error)
      diags.error(found.location) << givenValues(options) << ": " << found.message;
  return false;
}

Result<Compiled> compileFusion(Source &source, Fusion &fusion, const CompileOptions &options) {
  // Do not verify programs in the same text, because they assume the fusion's default parameters.
  bool isOverridden = options.ranks || !options.parameters.empty();
  if (!(isOverridden ? applyParameters(fusion, options, source.diags)
                     : verify(source.module, source.diags)))
    return located();
  fusion.dropUnused(); // the verifier has already warned about unused tensors
  source.module.programs.push_back(
      BRAID_TRY(lower(source.module, fusion, options.schedule, source.diags, options.afterPass,
                      options.reproducible)));
  return Compiled{&source, source.module.programs.back().get(), &fusion, true,
                  options.reproducible};
}

/// Returns BadInput if the transport is Messages but an option requires peer-memory access.
Status checkTransport(const CompileOptions &options) {
  if (transportOf(options.schedule.all, options.transport) == Transport::PeerMemory)
    return Status::ok();
  auto check = [](const Configuration &configuration) {
    for (Knob knob : kKnobsOfPeerMemory)
      if (configuration.get(knob))
        return badInput(
            "--{} requires --transport peer-memory, but these ranks communicate through messages",
            rowOf(knob).name);
    return Status::ok();
  };
  BRAID_TRY(check(options.schedule.all));
  for (const auto &stage : options.schedule.stages)
    BRAID_TRY(check(stage.config));
  return Status::ok();
}

Result<Compiled> compileEntry(Source &source, const CompileOptions &options) {
  if (source.diags.hasErrors())
    return located();
  BRAID_TRY(checkTransport(options));
  Entry entry = BRAID_TRY(findEntry(source, options));
  Compiled compiled = BRAID_TRY(entry.program ? compileProgram(source, *entry.program, options)
                                              : compileFusion(source, *entry.fusion, options));
  compiled.transport = transportOf(options.schedule.all, options.transport);
  return compiled;
}

} // namespace

static_assert(int(Transport::PeerMemory) == int(schedule::DataPlane::PeerMemory) &&
              int(Transport::Messages) == int(schedule::DataPlane::Messages));

std::unique_ptr<Source> parseSource(std::string name, std::string text) {
  auto source = std::make_unique<Source>(std::move(name), std::move(text));
  source->module = parse(source->diags);
  return source;
}

Result<std::unique_ptr<Source>> readSource(const std::string &path, const std::string &name) {
  constexpr size_t kMaxBytes = size_t(64) << 20;
  std::string text = BRAID_TRY(readFile(path, kMaxBytes));
  const std::string &known = path == "-" ? "<stdin>" : path;
  return parseSource(name.empty() ? known : name, std::move(text));
}

Status withLocated(const Status &status, const Diagnostics &diags) {
  if (status.isOk() || !diags.hasErrors())
    return status;
  return {status.code(), llvm::StringRef(diags.str()).rtrim('\n').str()};
}

Transport transportOf(const Configuration &config, Transport otherwise) {
  return static_cast<Transport>(
      config.get(Knob::DataPlane).value_or(static_cast<int64_t>(otherwise)));
}

Status CompileOptions::readSchedule(llvm::StringRef text, const Configuration &flags) {
  llvm::StringRef rest = text;
  isAuto =
      rest.consume_front("auto") && (rest.empty() || rest.front() == ';' || rest.front() == ',');
  schedule = BRAID_TRY(Configurations::parse(isAuto ? rest.ltrim(',') : text, flags));
  return Status::ok();
}

Result<Compiled> compile(Source &source, const CompileOptions &options) {
  Result<Compiled> compiled = compileEntry(source, options);
  return compiled ? std::move(compiled) : withLocated(compiled.status(), source.diags);
}

} // namespace braid
