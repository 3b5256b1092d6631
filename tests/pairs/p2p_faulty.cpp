//===- tests/pairs/p2p_faulty.cpp - `braid p2p`, on CPU ranks whose links have faults ---------===//

#include "tests/pairs/link_faults.h"
#include "tools/p2p.h"
#include "tools/process.h"

#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  using namespace braid;
  tools::prepareProcess();
  CLI::App app("The command of the tests.", "p2p_faulty");
  const tools::Command command = tools::addP2p(app, test::faultyBackends);
  return tools::exitCodeOf([&] {
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
      llvm::errs() << error.what() << "\n";
      return 2;
    }
    return command.run();
  });
}
