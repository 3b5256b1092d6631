//===- lowering/labels.cpp - what passes know, as labels in the program -----------------------===//

#include "lowering/labels.h"

#include "lowering/passes/passes.h"
#include "lowering/stages/configure_stages.h"
#include "lowering/stages/sum_gather.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>

namespace braid {
namespace {

llvm::StringRef nameOf(const Stage &stage) { return stage.result().name; }

/// Of a tensor that is no argument, read and written by stages.
bool isTensors(const OpLabel &label) { return label.role == kBetween || label.role == kExact; }

//===- Writing --------------------------------------------------------------------------------===//

class Writer {
public:
  explicit Writer(const Stage &stage) : stage_(stage) {}

  void run() {
    if (stage_.isGather())
      label("whole", stage_.whole);
    label("parts", stage_.parts);
    label("sent", stage_.sent);
    label("sum", stage_.sum);
    label("first_gemm", stage_.firstGemm);
    label("last_gemm", stage_.lastGemm);
    label("first", stage_.first);
    label("steps", stage_.loop, {stage_.chunks, stage_.tailSplit});
    label("chunks", stage_.chunkLoop);
    label("block", stage_.block);
    label("relay", stage_.relay);
    label("relayed", stage_.relayed);
    label("given", stage_.given);
    label("host_sums", stage_.hostSums);
    label("mine", stage_.mine);
    label("staging", stage_.staging);
    label("guard", stage_.guard);
    label("gather", stage_.gather);
    label("own", stage_.ownFirst);
    label("own_stream", stage_.ownStream);
    for (auto [block, op] : stage_.syncs)
      label("sync", op);
    Op *anchor = stage_.loop ? stage_.loop : stage_.ownStream;
    if (stage_.streams > 0)
      label("streams", anchor, {stage_.streams, stage_.transferStreams});
  }

private:
  void label(const char *role, Op *op, std::vector<int64_t> numbers = {}) {
    if (op)
      op->labels.push_back({nameOf(stage_).str(), role, std::move(numbers)});
  }
  void label(const char *role, const Value *value) {
    label(role, value ? value->definition : nullptr);
  }

  const Stage &stage_;
};

/// "ring;tail-split=2" as `ring, tail_split 2`.
std::vector<std::pair<std::string, std::string>> settingsOf(const Configuration &config) {
  std::vector<std::pair<std::string, std::string>> settings;
  llvm::SmallVector<llvm::StringRef, 8> parts;
  const std::string text = config.str();
  llvm::StringRef(text).split(parts, ';', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef part : parts) {
    auto [knob, value] = part.split('=');
    settings.emplace_back(wordOf(knob), wordOf(value));
  }
  return settings;
}

//===- Reading --------------------------------------------------------------------------------===//

std::string textOf(const StageLabel &label) {
  std::string text;
  for (const auto &[word, value] : label.settings)
    text += (text.empty() ? "" : ";") + word + (value.empty() ? "" : "=" + value);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

Result<Configuration> configurationOf(const StageLabel &label) {
  const std::string text = textOf(label);
  return text.empty() ? Configuration() : Configuration::parse(text);
}

/// Brings one label into its stage. Each part says what is wrong by a text, or nothing by "".
class Reader {
public:
  Reader(LoweringState &state, Stage &stage, Block &block, Op &op, const OpLabel &label)
      : body_(state.program->body()), stages_(state.stages), stage_(stage), block_(block), op_(op),
        label_(label) {}

  std::string run() {
    using Take = std::string (Reader::*)();
    static constexpr std::pair<const char *, Take> kRoles[] = {
        {"whole", &Reader::takeWhole},
        {"first", &Reader::takeFirst},
        {"steps", &Reader::takeSteps},
        {"chunks", &Reader::takeChunks},
        {"block", &Reader::takeBlock},
        {"mine", &Reader::takeMine},
        {"staging", &Reader::takeStaging},
        {"guard", &Reader::takeGuard},
        {"gather", &Reader::takeGather},
        {"parts", &Reader::takeParts},
        {"sent", &Reader::takeSent},
        {"sum", &Reader::takeSum},
        {"first_gemm", &Reader::takeFirstGemm},
        {"last_gemm", &Reader::takeLastGemm},
        {"own", &Reader::takeOwn},
        {"own_stream", &Reader::takeOwnStream},
        {"streams", &Reader::takeStreams},
        {"sync", &Reader::takeSync},
        {"relay", &Reader::takeRelay},
        {"relayed", &Reader::takeRelayed},
        {"given", &Reader::takeGiven},
        {"host_sums", &Reader::takeHostSums}};
    for (auto [role, take] : kRoles)
      if (label_.role == role)
        return (this->*take)();
    std::vector<std::string> known;
    for (auto [role, take] : kRoles)
      known.push_back(role);
    return "unknown role" + didYouMean(label_.role, known);
  }

private:
  /// The node as one of that kind, if it lies in `block`.
  template <class Kind> Kind *as(const Block &block) {
    return &block_ == &block ? llvm::dyn_cast<Kind>(&op_) : nullptr;
  }
  template <class Kind> std::string put(Kind *&field, Kind *found, const char *expected) {
    if (!found || field)
      return std::string("expected ") + (found ? "one node only" : expected);
    field = found;
    return "";
  }
  std::string putValue(Value *&field, const Block *block, const char *expected) {
    Value *found = !block || block == &block_ ? resultOf(op_) : nullptr;
    return put(field, found && found->kind == ValueKind::Tensor ? found : nullptr, expected);
  }
  std::string putNumbers(int64_t least, std::vector<int64_t *> fields) {
    if (label_.numbers.size() != fields.size())
      return "expected " + std::to_string(fields.size()) + " numbers";
    for (size_t i = 0; i < fields.size(); ++i) {
      if (label_.numbers[i] < least || label_.numbers[i] > (int64_t(1) << 30))
        return "expected numbers from " + std::to_string(least) + " on";
      *fields[i] = label_.numbers[i];
    }
    return "";
  }
  /// The body of the stage's loop: outer nodes are read first.
  const Block *steps() const { return stage_.loop ? &stage_.loop->body : nullptr; }
  /// Where the steps of the stage stand, and where its chunks do.
  const Block *aroundSteps() const {
    return stage_.isReduction() && stage_.chunkLoop ? &stage_.chunkLoop->body : &body_;
  }
  const Block *aroundChunks() const { return stage_.isReduction() ? &body_ : steps(); }

  std::string takeBuffer(Value *&field) {
    return put(field, op_.kind() == OpKind::Allocate ? resultOf(op_) : nullptr, "an allocate");
  }
  std::string takeGiven() { return takeBuffer(stage_.given); }
  std::string takeHostSums() { return takeBuffer(stage_.hostSums); }
  /// In the steps, or in the chunks that are in these.
  bool isInSteps() const {
    const bool hasChunks = stage_.isHierarchical() && stage_.isGather() && stage_.chunkLoop;
    return steps() && (&block_ == steps() || (hasChunks && &block_ == &stage_.stepBody()));
  }
  std::string takeRelay() {
    return put(stage_.relay, isInSteps() ? llvm::dyn_cast<ForOp>(&op_) : nullptr,
               "a loop in the steps of hosts");
  }
  std::string takeRelayed() {
    return stage_.relay ? putValue(stage_.relayed, &stage_.relay->body, "a tensor in the relay")
                        : "expected it in the relay";
  }
  std::string takeParts() { return takeBuffer(stage_.parts); }
  std::string takeSent() { return takeBuffer(stage_.sent); }
  std::string takeFirstGemm() {
    const bool isFine = isGemm(op_) && &block_ == aroundSteps();
    return put(stage_.firstGemm, isFine ? &op_ : nullptr, "a GEMM outside of the steps");
  }
  std::string takeLastGemm() {
    const auto *gemm = llvm::dyn_cast<MatmulOp>(&op_);
    const bool isFine = gemm && gemm->addend && &block_ == aroundSteps();
    return put(stage_.lastGemm, isFine ? &op_ : nullptr, "a GEMM outside of the steps that adds");
  }
  /// Behind the steps, but for a ring, which has it in the last one, and for collectives.
  std::string takeSum() {
    const bool isInSteps = stage_.isRing() || stage_.isCollective();
    return put(stage_.sum, isInSteps ? llvm::dyn_cast<SumOp>(&op_) : as<SumOp>(*aroundSteps()),
               "a sum behind the steps");
  }

  std::string takeWhole() { return takeBuffer(stage_.whole); }
  std::string takeFirst() { return put(stage_.first, as<Op>(body_), "a node outside of loops"); }
  std::string takeSteps() {
    auto *loop = as<ForOp>(*aroundSteps());
    const bool isFixed = loop && loop->begin->isConstant() && loop->end->isConstant();
    std::string wrong = put(stage_.loop, isFixed ? loop : nullptr, "a loop of constant bounds");
    return wrong.empty() ? putNumbers(1, {&stage_.chunks, &stage_.tailSplit}) : wrong;
  }
  std::string takeChunks() {
    return put(stage_.chunkLoop, aroundChunks() ? as<ForOp>(*aroundChunks()) : nullptr,
               "a loop in the steps, or around those of a reduction");
  }
  std::string takeBlock() {
    return steps() ? putValue(stage_.block, steps(), "a tensor in the steps")
                   : "expected it in the steps";
  }
  std::string takeMine() {
    return putValue(stage_.mine, stage_.isReduction() ? nullptr : &body_,
                    "a tensor outside of loops");
  }
  std::string takeStaging() { return put(stage_.staging, as<SetOp>(body_), "a set"); }
  std::string takeGuard() {
    return put(stage_.guard, isInSteps() ? llvm::dyn_cast<IfOp>(&op_) : nullptr,
               "a condition in the steps");
  }
  std::string takeGather() {
    auto *loop = stage_.isTwoShot() ? as<ForOp>(*aroundSteps()) : nullptr;
    const bool isFixed = loop && loop->begin->isConstant() && loop->end->isConstant();
    return put(stage_.gather, isFixed ? loop : nullptr,
               "a loop of constant bounds, of an all-reduce in two shots");
  }
  std::string takeOwn() { return put(stage_.ownFirst, as<Op>(body_), "a node outside of loops"); }
  std::string takeOwnStream() {
    return put(stage_.ownStream, static_cast<Op *>(as<SetCurrentStreamOp>(body_)),
               "a set_current_stream outside of loops");
  }
  std::string takeStreams() {
    std::string wrong = putNumbers(0, {&stage_.streams, &stage_.transferStreams});
    return wrong.empty() && stage_.transferStreams >= stage_.streams
               ? "expected more streams than those of transfers"
               : wrong;
  }
  std::string takeSync() {
    if (!llvm::isa<SetCurrentStreamOp>(op_) && !llvm::isa<SynchronizeOp>(op_))
      return "expected a node that orders streams";
    auto hasIt = [&](const Stage &stage) {
      return llvm::any_of(stage.syncs, [&](auto sync) { return sync.second == &op_; });
    };
    if (llvm::any_of(stages_, hasIt))
      return "expected it once";
    stage_.syncs.emplace_back(&block_, &op_);
    return "";
  }

  Block &body_;
  llvm::ArrayRef<Stage> stages_;
  Stage &stage_;
  Block &block_;
  Op &op_;
  const OpLabel &label_;
};

class StateReader {
public:
  explicit StateReader(LoweringState &state) : state_(state) {
    for (Stage &stage : state_.stages)
      stages_[nameOf(stage)] = &stage;
  }

  bool run() {
    noteNames();
    return llvm::all_of(state_.program->stages,
                        [this](const StageLabel &label) { return readStage(label); }) &&
           readBlock(state_.program->body()) && findWholes();
  }

private:
  /// Those that no value may get again.
  void noteNames() {
    for (const auto &value : state_.program->params())
      state_.names.noteGlobal(value->name);
    for (const auto &value : state_.program->results())
      state_.names.noteGlobal(value->name);
    noteNames(state_.program->body(), &Names::noteGlobal);
  }
  void noteNames(const Block &block, void (Names::*note)(llvm::StringRef)) {
    for (const Op &op : block) {
      if (const Value *result = resultOf(op))
        (state_.names.*note)(result->name);
      const auto *loop = llvm::dyn_cast<ForOp>(&op);
      if (loop)
        state_.names.noteLocal(loop->index->name());
      forEachBlock(op,
                   [&](const Block &inner) { noteNames(inner, loop ? &Names::noteLocal : note); });
    }
  }

  bool readStage(const StageLabel &label) {
    auto stage = stages_.find(label.stage);
    Result<Configuration> config = configurationOf(label);
    if (stage == stages_.end() || !config)
      return state_.diags.error(state_.program->location())
             << "stage @" << label.stage << ": "
             << (config ? "@" + state_.fusion.name() + " has no stage that makes it"
                        : config.status().message());
    stage->second->config = *config;
    return !stage->second->moves() || settleFields(state_, *stage->second);
  }

  bool readBlock(Block &block) {
    for (Op &op : block) {
      for (const OpLabel &label : op.labels)
        if (!readLabel(block, op, label))
          return false;
      bool isFine = true;
      forEachBlock(op, [&](Block &inner) { isFine = isFine && readBlock(inner); });
      if (!isFine)
        return false;
    }
    return true;
  }

  bool readLabel(Block &block, Op &op, const OpLabel &label) {
    if (isTensors(label))
      return true; // connectStages() has read it
    auto stage = stages_.find(label.stage);
    if (stage == stages_.end())
      return state_.diags.error(op.location())
             << "label '@" << label.stage << " " << label.role << "': @" << state_.fusion.name()
             << " has no stage that makes %" << label.stage;
    const std::string wrong = Reader(state_, *stage->second, block, op, label).run();
    return wrong.empty() || state_.diags.error(op.location())
                                << "label '@" << label.stage << " " << label.role << "': " << wrong;
  }

  bool findWholes() {
    const bool isFormed = llvm::is_contained(state_.program->passes, wordOf("form-pipelines"));
    for (Stage &stage : state_.stages) {
      if (!isFormed)
        continue;
      if (stage.gatheredBy)
        stage.whole = state_.stages[*stage.gatheredBy].whole;
      else if (!stage.isGather())
        stage.whole = stage.input;
      else if (Value *output = stage.gatheredOutput())
        stage.whole = output;
      if (isMovedElsewhere(stage))
        return state_.diags.error(state_.program->location())
               << "stage @" << nameOf(stage) << ": expected protocol, order and transfers as they "
               << "were when pass 'form-pipelines' ran: where %" << stage.name()
               << " is gathered depends on them";
      if (const char *role = missingRole(stage))
        return missing(stage, role);
      if (!checkGemms(stage))
        return false;
    }
    return true;
  }

  /// It was to be gathered in an output, or in a buffer, and now in the other one.
  static bool isMovedElsewhere(const Stage &stage) {
    if (!stage.isGather() || stage.reshards.empty() || stage.isCollective())
      return false;
    return stage.gatheredOutput() ? !stage.sent : !stage.whole;
  }

  bool hasRun(const char *pass) const {
    return llvm::is_contained(state_.program->passes, wordOf(pass));
  }

  bool missing(const Stage &stage, const char *role) {
    return state_.diags.error(state_.program->location())
           << "expected a node with the label '@" << nameOf(stage) << " " << role
           << "', which the passes that have run leave, got none";
  }

  static bool setsStream(const Stage &stage) {
    return llvm::any_of(stage.syncs,
                        [](auto sync) { return llvm::isa<SetCurrentStreamOp>(sync.second); });
  }

  /// Neither merge-gemms nor post-together has written the steps out.
  bool hasSteps(const Stage &stage) const {
    return !(hasRun("merge-gemms") && stage.isGeometric()) &&
           !(hasRun("post-together") && stage.moves() &&
             stage.config.posting() == schedule::Posting::All);
  }

  /// What a reduction sends is a part: of what is sent, if peers add other rows than this rank.
  static bool sendsNoPart(const Stage &stage) {
    return stage.mine && rootOf(stage.mine) != (stage.sent ? stage.sent : stage.parts);
  }

  /// The first GEMM behind the steps, or the last one ahead of them; null: both stand well.
  const Op *misplacedGemm(const Stage &stage) const {
    const Block &around = stage.chunkLoop ? stage.chunkLoop->body : state_.program->body();
    bool isBehind = false;
    for (const Op &op : around) {
      isBehind = isBehind || &op == stage.loop;
      if (stage.loop && &op == (isBehind ? stage.firstGemm : stage.lastGemm))
        return &op;
    }
    return nullptr;
  }

  bool checkGemms(const Stage &stage) {
    if (const Op *gemm = misplacedGemm(stage))
      return state_.diags.error(gemm->location())
             << "label '@" << nameOf(stage)
             << (gemm == stage.firstGemm ? " first_gemm': expected it ahead of the steps"
                                         : " last_gemm': expected it behind the steps");
    const Value *unmade = hasRun("insert-transfers") ? nullptr : missingSum(state_, stage);
    return !unmade || state_.diags.error(state_.program->location())
                          << "expected what makes the sums of @" << nameOf(stage) << " to make %"
                          << unmade->name << ", which ranks give one another";
  }

  /// The first role without a node, of all that later passes rely on; null: none.
  const char *missingRole(const Stage &stage) const {
    const bool hasSteps = this->hasSteps(stage), isGather = stage.isGather();
    const bool hasOwnStep = isGather && !stage.isCollective();
    const bool isMoved = hasOwnStep && hasRun("insert-transfers");
    const bool isPeeled = hasOwnStep && hasRun("peel-own-step");
    const bool isReduction = stage.isReduction(), isWhole = stage.multipliesWhole();
    const bool isCut = hasSteps && (isReduction || !isWhole);
    const bool isOnCallers =
        stage.moves() && stage.config.placement() == schedule::Placement::Caller;
    const bool hasStreams = hasSteps && hasRun("assign-streams") && stage.loop && !isOnCallers;
    const std::pair<bool, const char *> kWanted[] = {
        {isReduction && !stage.parts, "parts"},
        {isReduction && stage.isHierarchical() && !stage.given, "given"},
        {isReduction && stage.isHierarchical() && !stage.hostSums, "host_sums"},
        {isReduction && stage.isHierarchical() && hasSteps && !stage.guard, "guard"},
        {stage.isHierarchical() && hasSteps && stage.loop && !stage.relay, "relay"},
        {isGather && stage.isHierarchical() && stage.relay && !stage.relayed, "relayed"},
        {isGather && stage.isHierarchical() && isMoved && hasSteps && !stage.guard, "guard"},
        {isReduction && !stage.addsInGemms() && !stage.sum &&
             !(stage.isCollective() && hasRun("simplify")),
         "sum"},
        {stage.addsInGemms() && !stage.firstGemm && !hasRun("insert-transfers"), "first_gemm"},
        {stage.addsInGemms() && !stage.lastGemm, "last_gemm"},
        {isReduction && (stage.isScattered() || stage.isCollective()) && !stage.sent, "sent"},
        {isReduction && ((hasSteps && !stage.mine) || sendsNoPart(stage)), "mine"},
        {isReduction && stage.movesByPairs() && hasSteps && !isWhole && !stage.chunkLoop, "chunks"},
        {stage.isTwoShot() && hasSteps && hasRun("insert-transfers") &&
             (!stage.gather || stage.gather == stage.loop),
         "gather"},
        {isGather && !stage.whole, "whole"},
        {stage.moves() && (isCut || (hasSteps && isMoved)) && !stage.loop, "steps"},
        {stage.kind == StageKind::Local && !stage.loop, "steps"},
        {stage.loop && !stage.block && !isReduction, "block"},
        {hasSteps && !stage.first, "first"},
        {isMoved && !stage.mine, "mine"},
        {isMoved && !isPeeled && !stage.guard, "guard"},
        {isMoved && !isPeeled && !stage.staging, "staging"},
        {isPeeled && isCut && !stage.ownFirst, "own"},
        {stage.chunks * stage.tailSplit > 1 && !stage.chunkLoop, "chunks"},
        {(hasStreams || !stage.syncs.empty()) && stage.streams == 0, "streams"},
        {!stage.syncs.empty() && !setsStream(stage), "sync"}};
    for (auto [isMissing, role] : kWanted)
      if (isMissing)
        return role;
    return nullptr;
  }

  LoweringState &state_;
  llvm::StringMap<Stage *> stages_;
};

} // namespace

std::string wordOf(llvm::StringRef pass) {
  std::string word = pass.str();
  std::replace(word.begin(), word.end(), '-', '_');
  return word;
}

void writeLabels(const Pass &pass, LoweringState &state) {
  state.program->passes.push_back(wordOf(pass.name));
  // A tensor between GEMMs stays one.
  walk(state.program->body(), [](Op &op) {
    llvm::erase_if(op.labels, [](const OpLabel &label) { return !isTensors(label); });
  });
  state.program->stages.clear();
  for (const Stage &stage : state.stages) {
    Writer(stage).run();
    if (stage.kind != StageKind::Straight)
      state.program->stages.push_back({nameOf(stage).str(), settingsOf(stage.config)});
  }
}

/// The pass from which on a knob's value is in the program. A schedule is more than what the pass
/// that its field applies to makes of it: the steps are formed for it.
static std::string settledBy(const KnobRow &row) {
  return llvm::is_contained(presetFields(), row.knob) ? "form-pipelines" : row.applies;
}

/// Nothing that passes which have run depend on may change.
static Status checkChange(const Program &program, const Configuration &from,
                          const Configuration &to) {
  for (const KnobRow &row : allKnobs())
    if (from.valueOf(row.knob) != to.valueOf(row.knob) &&
        llvm::is_contained(program.passes, wordOf(settledBy(row))))
      return {StatusCode::BadInput, "cannot change " + row.name + " to " +
                                        row.str(to.get(row.knob)) + ": pass '" + settledBy(row) +
                                        "', which depends on it, has run"};
  return Status::ok();
}

Status overlay(Program &program, const Configurations &options) {
  for (StageLabel &label : program.stages) {
    Result<Configuration> config = configurationOf(label);
    if (!config)
      return config.status().annotated("stage @" + label.stage);
    const Configuration before = *config;
    *config = options.all.over(*config);
    for (const Configurations::OfStage &stage : options.stages)
      if (stage.tensor == label.stage)
        *config = stage.config.over(*config);
    if (Status status = checkChange(program, before, *config); !status.isOk())
      return status.annotated("stage @" + label.stage);
    label.settings = settingsOf(*config);
  }
  return Status::ok();
}

bool readLabels(LoweringState &state) {
  return findStages(state) && connectStages(state) && StateReader(state).run();
}

void dropLabels(Program &program) {
  walk(program.body(), [](Op &op) { op.labels.clear(); });
  program.passes.clear();
  program.stages.clear();
}

} // namespace braid
