//===- lowering/pipeline.cpp - the passes, in order -------------------------------------------===//
//
// Read from top to bottom, this is how a fusion becomes a host program. Passes insert generously,
// and separate ones remove: the program is right after every pass from insert-transfers on (where
// hosts pass blocks on, from hoist-syncs on), and each pass has one thing to get right.
//
//===----------------------------------------------------------------------------------------===//

#include "lowering/pipeline.h"

#include "lowering/passes/passes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>

namespace braid {
namespace {

//===- The passes -----------------------------------------------------------------------------===//

constexpr llvm::StringRef kAfterMoves[] = {"find-moves"};
constexpr llvm::StringRef kAfterForming[] = {"form-pipelines"};
constexpr llvm::StringRef kAfterTransfers[] = {"insert-transfers"};
constexpr llvm::StringRef kAfterPeeling[] = {"peel-own-step"};
constexpr llvm::StringRef kAfterStreams[] = {"assign-streams"};
constexpr llvm::StringRef kAfterHoisting[] = {"peel-own-step", "hoist-syncs"};

constexpr Pass kPasses[] = {
    // First the question what has to move. It is answered once, from the axis kinds alone; what
    // cannot be lowered ends here.
    {"find-moves", "groups GEMMs into stages, and declares the program's tensors", {}, findMoves},

    // Then the arithmetic: a loop over steps for every stage that has a Stream axis. Everything
    // below changes when and where this is done, never what.
    {"form-pipelines", "makes a loop over the steps of every stage", kAfterMoves, formPipelines},

    // Then the data: from here on the program computes the fusion, one step after the other.
    {"insert-transfers", "fills the gathered buffers, block by block", kAfterForming,
     insertTransfers},

    // The own step has nothing to wait for. It has to be out of the loop before steps are cut,
    // because only steps that move something gain from that.
    {"peel-own-step", "computes a rank's own block before the loop", kAfterTransfers, peelOwnStep},
    {"split-chunks", "cuts every step into row ranges", kAfterPeeling, splitChunks},

    // Now steps and chunks are what will be issued, and are dealt round-robin to streams: first so
    // that each one forks and joins by itself, then with the forks and joins at the ends.
    {"assign-streams", "gives steps streams in turn", kAfterTransfers, assignStreams},
    {"hoist-syncs", "one fork before a pipeline and one join after it", kAfterStreams, hoistSyncs},

    // With the steps written out, blocks that are neighbours are multiplied together.
    {"merge-gemms", "multiplies neighbouring blocks together", kAfterHoisting, mergeGemms},

    // With the steps written out and nothing but their transfers left to order, those of a small
    // problem are posted at once.
    {"post-together", "brings all transfers of a pipeline into one group", kAfterHoisting,
     postTogether},

    // A GEMM and the send of what it made stand side by side now, on one stream, and nothing below
    // looks for the GEMMs of a reduction again.
    {"store-at-peers", "computes partial results where they are sent", kAfterTransfers,
     storeAtPeers},

    // What a wait orders depends on the stream that is current where it stands, so waits move last.
    {"sink-waits", "moves the waits of sends behind the GEMMs", kAfterTransfers, sinkWaits},

    {"simplify", "removes empty loops, what is unused, sums that copy and idle stream changes",
     kAfterMoves, simplify},
};

//===- Reading a list -------------------------------------------------------------------------===//

std::vector<std::string> passNames() {
  std::vector<std::string> names;
  for (const Pass &pass : kPasses)
    names.push_back(pass.name.str());
  return names;
}

/// What is written at a pass holds for all stages.
void setForAll(Configurations &options, Knob knob, int64_t value) {
  options.all.set(knob, value);
  for (Configurations::OfStage &stage : options.stages)
    stage.config.set(knob, value);
}

bool applyOption(const Pass &pass, const PassSpec::Option &given, Configurations &options,
                 Diagnostics &diags) {
  const KnobRow *row = findKnob(given.name);
  if (row && row->applies == pass.name) {
    Result<int64_t> value =
        row->parse(given.value, "'" + row->name + "' of '" + pass.name.str() + "'");
    if (!value)
      return diags.error(given.location) << value.status().message();
    setForAll(options, row->knob, *value);
    return true;
  }
  std::string names;
  for (Knob knob : knobsOf(pass))
    names += (names.empty() ? "'" : " or '") + rowOf(knob).name + "'";
  return diags.error(given.location)
         << "pass '" << pass.name << "' takes " << (names.empty() ? "no option" : "the option ")
         << names << ", got '" << given.name << "'";
}

/// Checks that `pass` can come next. The passes keep notes for one another, which hold as long as
/// they run in the order of kPasses, each at most once.
bool checkOrder(const PassSpec &spec, const Pass &pass, const PassList &before,
                Diagnostics &diags) {
  bool isFine = true;
  for (llvm::StringRef needed : pass.needs) {
    if (llvm::is_contained(before.passes, findPass(needed)) ||
        llvm::is_contained(before.earlier, findPass(needed)))
      continue;
    isFine = diags.error(spec.location)
             << "pass '" << pass.name << "' needs '" << needed << "' before it";
  }
  for (const Pass *earlier : llvm::concat<const Pass *const>(before.earlier, before.passes)) {
    if (earlier < &pass)
      continue;
    if (earlier == &pass)
      return diags.error(spec.location) << "pass '" << pass.name << "' can run only once";
    return diags.error(spec.location)
           << "pass '" << pass.name << "' has to run before '" << earlier->name << "'";
  }
  return isFine;
}

bool addPass(const PassSpec &spec, PassList &list, Diagnostics &diags) {
  const Pass *pass = findPass(spec.name);
  if (!pass)
    return diags.error(spec.location)
           << "unknown pass '" << spec.name << "'" << didYouMeanPass(spec.name);
  bool isFine = checkOrder(spec, *pass, list, diags);
  llvm::StringSet<> given;
  for (const PassSpec::Option &option : spec.options) {
    if (!given.insert(option.name).second)
      isFine = diags.error(option.location)
               << "expected '" << option.name << "' of '" << pass->name << "' once";
    isFine &= applyOption(*pass, option, list.options, diags);
  }
  list.passes.push_back(pass);
  return isFine;
}

} // namespace

llvm::ArrayRef<Pass> allPasses() { return kPasses; }

const Pass *findPass(llvm::StringRef name) {
  const auto *found = llvm::find_if(allPasses(), [&](const Pass &p) { return p.name == name; });
  return found == allPasses().end() ? nullptr : found;
}

std::vector<Knob> knobsOf(const Pass &pass) {
  std::vector<Knob> knobs;
  for (const KnobRow &row : allKnobs())
    if (row.applies == pass.name)
      knobs.push_back(row.knob);
  return knobs;
}

std::string didYouMeanPass(llvm::StringRef name) { return didYouMean(name, passNames()); }

std::optional<std::vector<const Pass *>> passesRunOn(const Program &program, Diagnostics &diags) {
  std::vector<const Pass *> run;
  for (std::string word : program.passes) {
    std::replace(word.begin(), word.end(), '_', '-');
    run.push_back(findPass(word));
    if (!run.back()) {
      diags.error(program.location())
          << "'lowered by' names the unknown pass '" << word << "'" << didYouMeanPass(word);
      return std::nullopt;
    }
  }
  return run;
}

PassList defaultPasses(const Configurations &options) {
  PassList list{{}, options};
  for (const Pass &pass : kPasses)
    list.passes.push_back(&pass);
  return list;
}

std::optional<PassList> resolvePasses(llvm::ArrayRef<PassSpec> specs, const Configurations &options,
                                      Diagnostics &diags, std::vector<const Pass *> earlier) {
  PassList list{{}, options, std::move(earlier)};
  bool isFine = true;
  for (const PassSpec &spec : specs)
    isFine &= addPass(spec, list, diags);
  if (specs.empty())
    isFine = diags.error({}) << "expected at least one pass, got an empty list";
  if (!isFine)
    return std::nullopt;
  return list;
}

} // namespace braid
