//===- tools/compile.cpp - `braid compile` ----------------------------------------------------===//

#include "api/compile/compiled_program.h"
#include "api/compile/plans.h"
#include "ir/failure.h"
#include "lowering/passes/pass.h"
#include "tools/command.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace braid::tools {
namespace {

struct CompileFlags {
  SourceFlags source;
  std::string emit = "all";
  std::vector<std::string> printAfter;
};

constexpr const char *kCompileFooter = R"(
Prints a fusion and the host program that it is lowered to. If FILE contains a program, verifies and
prints it. Other commands can read the output of --emit all.

  braid compile examples/ag_matmul.braid --ranks 4
  braid compile examples/ag_linear.braid --schedule ring --protocol put --chunks 2
  braid compile examples/ag_matmul.braid --schedule 'C=coalesced;streams=3'
  braid compile examples/ag_matmul.braid --print-after all --emit program
  braid compile examples/ag_matmul.braid --emit dot | dot -Tsvg > program.svg)";

const std::vector<std::string> kEmitChoices = {"all", "program", "fusion", "plan", "dot", "json"};

void addFlags(CLI::App &app, CompileFlags &flags) {
  flags.source.addTo(app);
  addText(app, "--emit", flags.emit, "WHAT",
          "fusion, program, all (both; the default), plan, json or dot (a graph)");
  addText(app, "--print-after", flags.printAfter, "PASS|all",
          "print the program to stderr after PASS, or after every pass; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.footer(kCompileFooter);
}

Status checkPassNames(const std::vector<std::string> &names) {
  std::vector<std::string> choices = {"all"};
  for (const Pass &pass : allPasses())
    choices.push_back(pass.name.str());
  for (const std::string &name : names)
    if (!llvm::is_contained(choices, name))
      return badChoice("--print-after", name, choices);
  return Status::ok();
}

/// Prints the output selected by --emit. `source.module` also contains the result of compile().
Status emit(const CompileFlags &flags, Source &source, const Compiled &compiled) {
  llvm::raw_ostream &os = llvm::outs();
  if (flags.emit == "dot")
    emitDot(source.module, os);
  else if (flags.emit == "json")
    emitJson(source.module, os);
  else if (flags.emit == "program")
    print(*compiled.program, os);
  else if (flags.emit == "all")
    print(source.module, os);
  else if (flags.emit == "fusion" && compiled.fusion)
    print(*compiled.fusion, os);
  else if (flags.emit == "fusion")
    return badInput("--emit fusion: @{} does not implement a fusion", compiled.program->name());
  if (flags.emit != "plan")
    return Status::ok();
  // Stop after a write error, which main() reports.
  for (int64_t rank = 0; rank < compiled.program->ranks() && !llvm::outs().has_error(); ++rank)
    os << str(BRAID_TRY(makePlan(compiled, rank, source.diags)));
  return Status::ok();
}

Result<int> compileCommand(const CompileFlags &flags) {
  if (!llvm::is_contained(kEmitChoices, flags.emit))
    return badChoice("--emit", flags.emit, kEmitChoices);
  BRAID_TRY(checkPassNames(flags.printAfter));
  CompileOptions options = BRAID_TRY(flags.source.toOptions());
  if (!flags.printAfter.empty())
    options.afterPass = [&](const Pass &pass, const Program &program, bool) {
      if (llvm::is_contained(flags.printAfter, "all") ||
          llvm::is_contained(flags.printAfter, pass.name.str()))
        llvm::errs() << "// after " << pass.name << "\n" << str(program);
    };
  const std::unique_ptr<Source> source = BRAID_TRY(readSource(flags.source.file));
  const Compiled compiled = BRAID_TRY(compile(*source, options));
  if (compiled.isLowered)
    warnOfNoOverlap(compiled, options.schedule);
  llvm::errs() << source->diags.str(); // warnings
  BRAID_TRY(emit(flags, *source, compiled));
  return 0;
}

} // namespace

Command addCompile(CLI::App &app) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App *command =
      app.add_subcommand("compile", "Lower a fusion, and print the fusion and its host program");
  addFlags(*command, *flags);
  return {command, [flags] {
            return runCommand([&] { return compileCommand(*flags); }, flags->source.file);
          }};
}

} // namespace braid::tools
