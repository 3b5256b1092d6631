//===- tests/support/check_text.cpp - compiles and checks generated programs ------------------===//

#include "tests/support/check_text.h"

#include "api/compile/plans.h"
#include "ir/failure.h"
#include "tests/support/alike.h"

#include "llvm/ADT/STLExtras.h"

namespace braid::test {
namespace {

/// Returns true if the options can be lowered for a backend that sends messages.
bool isForMessages(const CompileOptions &options) {
  auto isFor = [](const Configuration &config) {
    return config.protocol() == Protocol::Get && config.partials() == schedule::Partials::Local &&
           config.secondShot() == schedule::SecondShot::Same;
  };
  return isFor(options.schedule.all) &&
         llvm::all_of(options.schedule.stages,
                      [&](const auto &stage) { return isFor(stage.config); });
}

Status expectSafe(const Compiled &compiled) {
  const std::vector<Plan> plans = BRAID_TRY(makePlans(compiled));
  const CheckReport report = BRAID_TRY(checkManyBothWays(plans, compiled.fusion, {.queues = 1}));
  return report.isSafe() && report.resultChecked ? Status::ok()
                                                 : Status(StatusCode::Rejected, str(report));
}

} // namespace

Status checkText(const std::string &text, const CompileOptions &options) {
  std::unique_ptr<Source> source = parseSource("generated.braid", text);
  Result<Compiled> compiled = compile(*source, options);
  if (!compiled)
    return compiled.status().annotated(source->diags.str());
  Status status = expectSafe(*compiled);
  if (status.isOk() && isForMessages(options)) {
    compiled->transport = Transport::Messages;
    status = expectSafe(*compiled).annotated("as messages");
  }
  return source->diags.hasErrors() ? status.annotated(source->diags.str()) : status;
}

} // namespace braid::test
