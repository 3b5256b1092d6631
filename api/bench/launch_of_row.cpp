//===- api/bench/launch_of_row.cpp - how a timed row was launched -----------------------------===//

#include "api/bench/bench_results.h"
#include "lowering/schedule/configuration.h"

namespace braid {

bool BenchRow::isIssuedAsGraph() const {
  if (choice.empty())
    return isGraphed;
  Result<Configurations> chosen = Configurations::parse(choice);
  return chosen && chosen->all.launch() == schedule::Launch::Graph;
}

} // namespace braid
