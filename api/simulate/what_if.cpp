//===- api/simulate/what_if.cpp - a machine that is other than it is --------------------------===//

#include "api/simulate/what_if.h"

#include "ir/failure.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

namespace braid {
namespace {

constexpr double kLeast = 1e-6, kMost = 1e6;

struct Aspect {
  const char *name;
  const char *help;
  bool isSpeed; ///< its factor must not be 0
  void (*apply)(CostModel &model, double factor);
};

void speedUp(CopyCost &cost, double factor) {
  cost.bytesPerUs *= factor;
  cost.sharedBytesPerUs *= factor;
}

/// What the smallest of its kind takes is latency, and the rest is the links'.
void scaleMessages(CostModel &model, double latency, double links) {
  std::map<std::pair<LaunchMode, std::optional<CollectiveKind>>, double> leasts;
  for (const MessageCost &each : model.messages) {
    auto [least, isNew] = leasts.try_emplace({each.launchMode, each.collective}, each.us);
    least->second = std::min(least->second, each.us);
  }
  for (MessageCost &each : model.messages) {
    const double least = leasts.at({each.launchMode, each.collective});
    each.us = least * latency + (each.us - least) * links;
  }
}

constexpr Aspect kAspects[] = {
    {"link", "speed of links between ranks", true,
     [](CostModel &model, double factor) {
       for (OperationCosts &costs : model.operations) {
         speedUp(costs.pull, factor);
         speedUp(costs.push, factor);
       }
       scaleMessages(model, 1, 1 / factor);
     }},
    {"network", "speed of the network between hosts", true,
     [](CostModel &model, double factor) {
       model.network.bytesPerUs *= factor;
       model.network.rankBytesPerUs *= factor;
     }},
    {"memory", "speed of copies and sums within a rank", true,
     [](CostModel &model, double factor) {
       for (OperationCosts &costs : model.operations) {
         speedUp(costs.local, factor);
         if (costs.sum)
           speedUp(*costs.sum, factor);
       }
     }},
    {"gemm", "speed of GEMMs", true,
     [](CostModel &model, double factor) {
       for (GemmCost &gemm : model.gemms)
         gemm.us /= factor;
     }},
    {"copy", "fixed time of a copy", false,
     [](CostModel &model, double factor) {
       for (OperationCosts &costs : model.operations)
         for (CopyCost *copy :
              {&costs.local, &costs.pull, &costs.push, costs.sum ? &*costs.sum : nullptr})
           if (copy)
             copy->fixedUs *= factor;
     }},
    {"latency", "time of the smallest message, on the network, too", false,
     [](CostModel &model, double factor) {
       model.network.latencyUs *= factor;
       scaleMessages(model, factor, 1);
     }},
    {"signal", "time of a signal and of its wait", false,
     [](CostModel &model, double factor) {
       for (OperationCosts &costs : model.operations)
         for (double *us : {&costs.signalUs, &costs.flightUs, &costs.awaitUs})
           *us *= factor;
     }},
    {"launch", "time to issue commands, of events, and to begin and end a run", false,
     [](CostModel &model, double factor) {
       for (OperationCosts &costs : model.operations)
         for (double *us : {&costs.issueCopyUs, &costs.issueMatmulUs, &costs.issueSignalUs,
                            &costs.issueEventUs, &costs.eventUs, &costs.runUs, &costs.apartUs,
                            &costs.gapUs, &costs.forkUs, &costs.launchUs})
           *us *= factor;
     }},
};

std::string namesOfAspects() {
  std::string names;
  for (const Aspect &aspect : kAspects)
    names += (names.empty() ? "" : ", ") + std::string(aspect.name);
  return names;
}

Status applyOne(CostModel &model, llvm::StringRef part) {
  auto [name, value] = part.split('=');
  const auto *aspect =
      llvm::find_if(kAspects, [&, n = name](const Aspect &a) { return n == a.name; });
  if (aspect == std::end(kAspects))
    return badInput("--what-if: expected one of {}, got '{}'", namesOfAspects(), name.str());
  double factor = 0;
  llvm::StringRef number = value;
  number.consume_back("x");
  const bool isNumber =
      !number.getAsDouble(factor) && (factor == 0 || (factor >= kLeast && factor <= kMost));
  if (!isNumber || (factor == 0 && aspect->isSpeed))
    return badInput("--what-if: expected {}=FACTOR with {}a number from 0.000001 to 1000000, got "
                    "'{}'",
                    aspect->name, aspect->isSpeed ? "" : "0 or ", part.str());
  aspect->apply(model, factor);
  return Status::ok();
}

} // namespace

Result<CostModel> applyWhatIf(CostModel model, const std::string &text) {
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, ',', -1, /*KeepEmpty=*/false);
  llvm::SmallVector<llvm::StringRef> names;
  for (llvm::StringRef part : parts) {
    const llvm::StringRef name = part.split('=').first;
    if (llvm::is_contained(names, name))
      return badInput("--what-if: expected {} once, got '{}' besides", name.str(), part.str());
    names.push_back(name);
    BRAID_TRY(applyOne(model, part));
  }
  return model;
}

std::string whatIfHelp() {
  std::string text;
  for (const Aspect &aspect : kAspects)
    text += fmt::format("  {:<8} {}\n", aspect.name, aspect.help);
  return text;
}

} // namespace braid
