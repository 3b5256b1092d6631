//===- tools/flags.cpp - flags common to several subcommands ----------------------------------===//

#include "tools/command.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <cstdlib>

namespace braid::tools {

void SourceFlags::addTo(CLI::App &app) {
  app.add_option("FILE", file, "a .braid file with a fusion or a program; - is standard input")
      ->required();
  app.add_option("--entry", entry, "which fusion or program, where FILE holds several")
      ->type_name("NAME");
  addInteger(app, "--ranks", ranks, "size of the mesh (a program in FILE fixes it)")
      ->type_name("N");
  // Flags that steer lowering are refused for a file that holds a program.
  auto *lowering = app.add_option_group("Lowering", "only where FILE holds a fusion");
  lowering->add_option("--set", set, "give a parameter of the fusion a value; repeatable")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  lowering
      ->add_option(
          "--schedule", schedule,
          takesAuto
              ? "pairwise (default), doubling, hop, burst, fused, none, or auto: measure and choose"
              : "pairwise (default), doubling, hop, burst, fused or none")
      ->type_name("NAME");
  addInteger(*lowering, "--chunks", chunks,
             "chunks in all, a multiple of the Stream axis (default: its extent)")
      ->type_name("S");
  addInteger(*lowering, "--taper", taper,
             "the last step has T times the chunks of the others; of doubling, from 2 on: the "
             "last product is cut in two (default 1)")
      ->type_name("T");
  addInteger(*lowering, "--wave-rows", waveRows,
             "rows in a wave of tiles: doubling's products end where waves do (default 0: "
             "where blocks do)")
      ->type_name("R");
  lowering
      ->add_option("--protocol", protocol,
                   "get (default): the receiver copies; put: the sender does")
      ->type_name("get|put");
  addInteger(*lowering, "--streams", streams, "streams that steps are dealt out to (default 4)")
      ->type_name("K");
  lowering
      ->add_option("--transfers", transfers,
                   "pairwise's on the streams of products (each, default) or on their own (shared)")
      ->type_name("each|shared");
  lowering
      ->add_option("--passes", passes,
                   "run these passes instead of all; see braid compile --list-passes")
      ->type_name("a,b{opt=1}");
}

Status badChoice(llvm::StringRef flag, llvm::StringRef value,
                 const std::vector<std::string> &choices) {
  return Status(StatusCode::BadInput,
                fmt::format("expected {} to be one of {}, got '{}'{}", flag.str(),
                            llvm::join(choices, ", "), value.str(), didYouMean(value, choices)));
}

std::string temporaryFolder() {
  const char *folder = std::getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

namespace {

Status readParameter(const std::string &text, CompileOptions &options) {
  auto [name, value] = llvm::StringRef(text).split('=');
  int64_t number = 0;
  if (name.empty() || value.getAsInteger(10, number))
    return Status(
        StatusCode::BadInput,
        fmt::format("expected --set NAME=VALUE with an integer of 64 bits, got '{}'", text));
  options.parameters.emplace_back(name.str(), number);
  return Status::ok();
}

} // namespace

Status SourceFlags::toOptions(CompileOptions &options) const {
  if (ranks && *ranks < 1)
    return Status(StatusCode::BadInput,
                  fmt::format("expected --ranks to be at least 1, got {}", *ranks));
  options.entry = entry;
  options.ranks = ranks;
  options.passes = passes;
  options.chunks = chunks;
  options.taper = taper;
  options.waveRows = waveRows;
  options.streams = streams;
  for (const std::string &text : set)
    if (Status status = readParameter(text, options); !status.isOk())
      return status;
  if (schedule && !isAuto()) {
    options.schedule = scheduleFromName(*schedule);
    std::vector<std::string> choices = {"pairwise", "doubling", "hop", "burst", "fused", "none"};
    if (takesAuto)
      choices.push_back("auto");
    if (!options.schedule)
      return badChoice("--schedule", *schedule, choices);
  }
  if (transfers) {
    options.transfers = transfersFromName(*transfers);
    if (!options.transfers)
      return badChoice("--transfers", *transfers, {"each", "shared"});
  }
  if (protocol) {
    if (*protocol != "get" && *protocol != "put")
      return badChoice("--protocol", *protocol, {"get", "put"});
    options.protocol = *protocol == "get" ? Protocol::Get : Protocol::Put;
  }
  return Status::ok();
}

Status SourceFlags::refuseAuto(llvm::StringRef command) const {
  if (!isAuto())
    return Status::ok();
  return Status(StatusCode::BadInput,
                fmt::format("--schedule auto: {} has no ranks to measure on; braid run --schedule "
                            "auto --explain says what to choose",
                            command.str()));
}

std::string messageOf(const Status &status, const Source *source) {
  if (source && source->diags.hasErrors())
    return source->diags.str();
  Diagnostics plain("braid", ""); // which cuts long names short
  plain.error({}) << status.message();
  return plain.str();
}

int report(const Status &status, const Source *source) {
  llvm::errs() << messageOf(status, source);
  return static_cast<int>(status.code());
}

} // namespace braid::tools
