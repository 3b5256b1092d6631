//===- tests/lowering/support.cpp - lowers texts and inspects every pass ----------------------===//

#include "tests/lowering/support.h"

#include "runtime/check/checker.h"
#include "runtime/plan/specialize.h"
#include "tests/support/configured.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace braid {
namespace {

std::string bodyOf(llvm::StringRef program) {
  llvm::StringRef body = program.split("{\n").second;
  return body.substr(0, body.rfind("}\n")).str();
}

std::string messagesOf(const Diagnostics &diags) {
  std::string text;
  for (const Diagnostic &diagnostic : diags.all())
    if (diagnostic.severity == Severity::Error)
      text += std::to_string(diagnostic.location.line) + ":" +
              std::to_string(diagnostic.location.column) + ": " + diagnostic.message + "\n";
  return text;
}

std::vector<Plan> plansOf(const Program &program, llvm::StringRef pass) {
  Diagnostics diags("test.braid", "");
  std::vector<Plan> plans;
  for (int64_t rank = 0; rank < program.ranks(); ++rank) {
    Result<Plan> plan = specialize(program, rank, diags);
    EXPECT_TRUE(plan.isOk()) << pass.str() << ": " << diags.str();
    if (plan)
      plans.push_back(std::move(*plan));
  }
  return plans;
}

/// Checks that the program after insert-transfers and each later pass is safe with one queue. If
/// there are several hosts, the program after assign-streams is not checked: sends between hosts
/// may wait for their receives, and this pass leaves a wait between a send and the next receive,
/// which later passes move.
void expectSafe(const Fusion &fusion, const Program &program, llvm::StringRef pass) {
  if (program.ranksPerHost() < program.ranks() && pass == "assign-streams")
    return;
  const std::vector<Plan> plans = plansOf(program, pass);
  ASSERT_EQ(plans.size(), static_cast<size_t>(program.ranks()));
  Result<CheckReport> report = check(plans, &fusion, {.queues = 1});
  ASSERT_TRUE(report.isOk()) << report.status().message();
  EXPECT_TRUE(report->isSafe()) << "after " << pass.str() << ": " << str(*report) << str(program);
}

} // namespace

std::string Lowered::after(llvm::StringRef pass) const {
  for (const Snapshot &snapshot : snapshots)
    if (snapshot.pass == pass)
      return bodyOf(snapshot.text);
  ADD_FAILURE() << "no pass '" << pass.str() << "' ran: " << status.message();
  return "";
}

std::string Lowered::body() const { return bodyOf(text); }

Lowered lowerText(llvm::StringRef text, const std::string &schedule) {
  return lowerText(text, test::configured(schedule));
}

Lowered lowerText(llvm::StringRef text, const Configurations &options) {
  Diagnostics diags("test.braid", text.str());
  Module module = parse(diags);
  Lowered lowered;
  EXPECT_TRUE(!diags.hasErrors() && module.fusions.size() == 1 && verify(module, diags))
      << diags.str();
  if (diags.hasErrors() || module.fusions.size() != 1)
    return lowered;
  bool isRunnable = false;
  auto keep = [&](const Pass &pass, const Program &program, bool changed) {
    isRunnable |= pass.name == "insert-transfers";
    if (isRunnable)
      expectSafe(*module.fusions[0], program, pass.name);
    lowered.snapshots.push_back({pass.name.str(), changed, str(program)});
    if (changed)
      lowered.changes.push_back(pass.name.str());
  };
  auto result = lower(module, *module.fusions[0], options, diags, keep);
  lowered.messages = messagesOf(diags);
  lowered.status = result.status();
  if (result)
    lowered.text = str(**result);
  return lowered;
}

std::string orderOfAdditions(llvm::StringRef text, const std::string &schedule) {
  Diagnostics diags("test.braid", text.str());
  Module module = parse(diags);
  const Fusion &fusion = *module.fusions.front();
  auto program = lower(module, fusion, test::configured(schedule), diags);
  EXPECT_TRUE(program.isOk()) << schedule << diags.str();
  if (!program)
    return "not lowered";
  Result<CheckReport> report =
      check(plansOf(**program, schedule), &fusion, {.queues = 1, .ordered = true});
  EXPECT_TRUE(report.isOk() && report->resultChecked) << schedule;
  return report && report->violation ? report->violation->summary : "";
}

std::string withoutLayout(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef, 64> lines;
  text.split(lines, '\n');
  std::string result;
  for (llvm::StringRef line : lines) {
    llvm::SmallVector<llvm::StringRef, 16> words;
    line.split("//").first.split(words, ' ', -1, /*KeepEmpty=*/false);
    if (!words.empty())
      result += llvm::join(words, " ") + "\n";
  }
  return result;
}

} // namespace braid
