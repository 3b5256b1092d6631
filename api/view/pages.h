//===- api/view/pages.h - the pages of `braid view` -------------------------------------------===//
#pragma once

#include "api/compile/compile.h"
#include "api/view/page.h"
#include "runtime/check/checker.h"
#include "runtime/simulate/simulator.h"

namespace braid::view {

/// A program and the Plans of all ranks. The commands' line numbers refer to the text of
/// `compiled.source`.
struct PrintedProgram {
  std::string program;            ///< the program without its fusion, like Plan::text
  std::unique_ptr<Source> source; ///< the printed text; null if the program is from a file
  Compiled compiled;              ///< compiled from `source`, or by the caller
  std::vector<Plan> plans;
};

/// Prepares a compiled program for a page. The program's source must outlive the result. A program
/// from a file keeps its line numbers; a lowered program is printed and parsed again, and messages
/// refer to it as file `page`. Returns Unsupported if there is not enough memory for the Plans.
/// Adds errors with source locations to the source's diagnostics.
Result<PrintedProgram> printAgain(const Compiled &compiled);
/// Parses Plan::text, which does not contain the fusion. Messages use `name` as the file name.
Result<PrintedProgram> readAgain(const std::string &name, const std::string &text,
                                 Transport transport);

/// Returns a page with the text and the commands of `runs` consecutive runs, without times. `plans`
/// are the Plans of all ranks, or Plans that represent all ranks (runtime/plan/alike_ranks.h).
Page pageOf(const PrintedProgram &program, llvm::ArrayRef<Plan> plans, uint32_t runs = 1);

/// Shows a predicted run of a program on the machine that `model` describes. Groups and collectives
/// with unknown costs appear as the signals and copies that move their data. Fails like simulate().
Result<Page> predictedPage(const PrintedProgram &program, const CostModel &model,
                           const SimulationOptions &options);

/// Shows the last run in a trace from `braid run --trace`. Returns BadInput, with `name` and what
/// was expected, if `text` is not a valid trace.
Result<Page> measuredPage(const std::string &name, const std::string &text);

/// Returns a page that shows the timelines of both pages, one above the other. Returns BadInput if
/// the pages show different programs.
Result<Page> layOver(const Page &measured, Page predicted);

/// Shows the commands in one possible order, and marks the events of the violation. If there is no
/// violation, shows what was proved. `report` must be the result of checking `program.plans`.
Page counterexamplePage(const PrintedProgram &program, const CheckReport &report);

/// Returns a timing in steps. A command begins when it reaches the head of its queue, and ends one
/// step after the command that it waits for, if any. If `queues` is not 0, streams share that many
/// hardware queues, in the Plan's order. A command that never ends has no end time.
Timing stepsOf(const Page &page, uint32_t queues);

/// Shows the flight records of a failed job, starting with the root cause. `records` contains at
/// least one line.
Page recordedPage(const std::vector<std::string> &records);

} // namespace braid::view
