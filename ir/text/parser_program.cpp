//===- ir/text/parser_program.cpp - the text of host programs ---------------------------------===//

#include "ir/builder.h"
#include "ir/text/parser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

class ProgramParser : public ScalarParser {
public:
  ProgramParser(TokenCursor &cursor, Program &program)
      : ScalarParser(cursor, program.scalars()),
        builder_(program, ProgramBuilder::NamePolicy::AsWritten) {}
  /// Everything behind the mesh. `isHeaderBroken`: the header had an error already.
  void run(bool isHeaderBroken);

private:
  /// `%result = keyword ...` or `keyword ...`.
  struct Statement {
    const Token *result = nullptr;
    const Token *keyword = nullptr;
    Location location() const { return (result ? result : keyword)->location; }
  };
  struct Rule {
    llvm::StringLiteral keyword;
    bool hasResult;
    bool (ProgramParser::*parse)(const Statement &);
  };
  /// The definition of a visible name. If both `value` and `index` are null, the definition had an
  /// error.
  struct Entry {
    Value *value = nullptr;
    const Scalar *index = nullptr;
    Location location;
  };
  /// The GEMM of a send that computes.
  struct SentGemm {
    bool isLinear = false;
    llvm::SmallVector<Value *, 2> operands = {};
    Value *addend = nullptr;
    TensorType type = {};
  };
  using MakeDeclared = Value *(ProgramBuilder::*)(llvm::StringRef, TensorType);

  bool parseDeclarations(MakeDeclared make);
  bool parseDeclaration(MakeDeclared make);
  bool parseHeader();
  using ParseExtent = const Scalar *(ProgramParser::*)();
  std::optional<TensorType> parseType(ParseExtent parseExtent = &ProgramParser::parseConstant);
  const Scalar *parseConstant();

  /// The end of a block's names: with the block, or (a group's requests) with the enclosing block.
  enum class Scope { Own, Outer };
  bool parseBlock(Block &block, Scope scope = Scope::Own);
  /// True after an error if one more block would be too deep.
  bool isTooDeep();
  void parseStatements();
  bool parseStatement();
  static llvm::ArrayRef<Rule> rules();
  static std::vector<std::string> keywords();
  void recover(size_t start);
  void parseOrphanBlock();
#define BRAID_OP(Kind, keyword, results, summary) bool parse##Kind(const Statement &statement);
#include "ir/program_kinds.def"
  bool parseLinear(const Statement &statement); ///< a matmul, too

  Value *parseValue();
  /// `count` values with commas between.
  bool parseExpression(Value *&first, std::vector<PointwiseStep<Value *>> &steps);
  bool parseValues(llvm::SmallVectorImpl<Value *> &values, size_t count);
  bool parseAddend(Value *&addend);
  bool parseElse(IfOp &branch);
  std::optional<SentGemm> parseSentGemm();
  const Scalar *parseCondition();
  std::optional<CollectiveKind> parseCollectiveKind();
  bool parseTeam(llvm::SmallVectorImpl<const Scalar *> &team);
  std::optional<StreamRef> parseStream();
  const Scalar *resolve(const Token &name) override;
  void reportUnknown(const Token &name, llvm::StringRef what);

  /// Makes a name visible. True also after a redefinition: the statement itself was read.
  bool declare(const Token &name, Value *value, const Scalar *index);
  bool define(const Token &name, Value *value) { return declare(name, value, nullptr); }
  void poison(const Token &name);
  void leaveScope(size_t visibleBefore);

  ProgramBuilder builder_;
  std::map<std::string, Entry> visible_;
  std::vector<std::string> order_; ///< the names in visible_, in order of definition
  Block *current_ = nullptr;       ///< where the builder inserts
  int depth_ = 0;
  bool wasTooDeep_ = false; ///< reported once a program
  /// Above 0, unknown names are not reported: an error before may be why they are unknown.
  int lenient_ = 0;
};

//===----------------------------------------------------------------------------------------===//
// Header
//===----------------------------------------------------------------------------------------===//

/// program := ... '(' [decl,*] ')' '->' '(' [decl,*] ')' block
void ProgramParser::run(bool isHeaderBroken) {
  if (isHeaderBroken || !parseHeader()) {
    ++lenient_;
    while (!cursor_.at(TokenKind::LeftBrace) && !cursor_.at(TokenKind::End) &&
           !cursor_.atTopLevel())
      cursor_.take();
    if (!cursor_.at(TokenKind::LeftBrace))
      return;
  }
  parseBlock(builder_.program().body());
}

bool ProgramParser::parseHeader() {
  return parseDeclarations(&ProgramBuilder::param) && cursor_.expect(TokenKind::Arrow) &&
         parseDeclarations(&ProgramBuilder::result);
}

/// '(' [decl (',' decl)*] ')'
bool ProgramParser::parseDeclarations(MakeDeclared make) {
  if (!cursor_.expect(TokenKind::LeftParen))
    return false;
  if (cursor_.accept(TokenKind::RightParen))
    return true;
  do {
    if (!parseDeclaration(make))
      return false;
  } while (cursor_.accept(TokenKind::Comma));
  return cursor_.expect(TokenKind::RightParen, "',' or ')'");
}

/// decl := '%'id ':' ttype
bool ProgramParser::parseDeclaration(MakeDeclared make) {
  const Token *name = cursor_.expect(TokenKind::ValueName);
  if (!name || !cursor_.expect(TokenKind::Colon))
    return false;
  std::optional<TensorType> type = parseType();
  if (!type)
    return false;
  builder_.setLocation(name->location);
  return define(*name, (builder_.*make)(name->name(), std::move(*type)));
}

/// ttype := dtype '[' [scalar (',' scalar)*] ']'
std::optional<TensorType> ProgramParser::parseType(ParseExtent parseExtent) {
  std::optional<DType> dtype = parseDType(cursor_);
  if (!dtype || !cursor_.expect(TokenKind::LeftBracket))
    return std::nullopt;
  TensorType type{*dtype, {}};
  if (cursor_.accept(TokenKind::RightBracket))
    return type;
  do {
    type.shape.push_back((this->*parseExtent)());
    if (!type.shape.back())
      return std::nullopt;
  } while (cursor_.accept(TokenKind::Comma));
  if (!cursor_.expect(TokenKind::RightBracket, "',' or ']'"))
    return std::nullopt;
  return type;
}

const Scalar *ProgramParser::parseConstant() {
  Location location = cursor_.peek().location;
  const Scalar *extent = parseScalar();
  if (!extent || extent->isConstant())
    return extent;
  cursor_.error(location) << "expected a constant extent, got '" << extent->str() << "'";
  return nullptr;
}

//===----------------------------------------------------------------------------------------===//
// Blocks and statements
//===----------------------------------------------------------------------------------------===//

/// block := '{' op* '}'
bool ProgramParser::parseBlock(Block &block, Scope scope) {
  if (!cursor_.at(TokenKind::LeftBrace))
    return cursor_.expected("'{'");
  if (isTooDeep()) {
    cursor_.skipBraces();
    return true;
  }
  Location open = cursor_.take().location;
  Block *outer = std::exchange(current_, &block);
  builder_.insertAtEnd(block);
  size_t visibleBefore = order_.size();
  ++depth_;
  parseStatements();
  --depth_;
  if (scope == Scope::Own)
    leaveScope(visibleBefore);
  current_ = outer;
  if (outer)
    builder_.insertAtEnd(*outer);
  // The statements' errors are reported; the block as such was read.
  cursor_.expectClosingBrace(open);
  return true;
}

bool ProgramParser::isTooDeep() {
  if (depth_ < kMaxNesting)
    return false;
  if (!std::exchange(wasTooDeep_, true))
    cursor_.error(cursor_.peek().location)
        << "expected at most " << kMaxNesting << " nested blocks, got more";
  return true;
}

void ProgramParser::parseStatements() {
  while (!cursor_.at(TokenKind::RightBrace) && !cursor_.at(TokenKind::End) &&
         !cursor_.atTopLevel()) {
    size_t start = cursor_.position();
    if (!parseStatement())
      recover(start);
  }
}

llvm::ArrayRef<ProgramParser::Rule> ProgramParser::rules() {
  static constexpr Rule kRules[] = {
#define BRAID_OP(Kind, keyword, results, summary)                                                  \
  {keyword, results != 0, &ProgramParser::parse##Kind},
#include "ir/program_kinds.def"
      {"linear", false, &ProgramParser::parseLinear},
  };
  return kRules;
}

std::vector<std::string> ProgramParser::keywords() {
  std::vector<std::string> words;
  for (const Rule &rule : rules())
    words.push_back(rule.keyword.str());
  return words;
}

/// op := ['%'id '='] keyword ...
bool ProgramParser::parseStatement() {
  Statement statement;
  if (cursor_.at(TokenKind::ValueName)) {
    statement.result = &cursor_.take();
    if (!cursor_.expect(TokenKind::Assign)) {
      poison(*statement.result);
      return false;
    }
  }
  statement.keyword = &cursor_.peek();
  llvm::StringRef word = statement.keyword->text;
  const auto *rule =
      llvm::find_if(rules(), [&](const Rule &candidate) { return candidate.keyword == word; });
  bool isFine = false;
  if (rule == rules().end()) {
    cursor_.expected("an operation")
        << (word == "reduce" ? "; 'sum %dst, %parts' adds the entries of one tensor"
                             : didYouMean(word, keywords()));
  } else if (rule->hasResult && !statement.result) {
    cursor_.error(statement.keyword->location)
        << "'" << word << "' gives a value, expected '%x = " << word << " ...'";
  } else if (!rule->hasResult && statement.result) {
    cursor_.error(statement.result->location)
        << "'" << word << "' gives no value, expected '" << word << " ...'";
  } else {
    cursor_.take();
    builder_.setLocation(statement.location());
    isFine = (this->*rule->parse)(statement);
  }
  if (!isFine && statement.result)
    poison(*statement.result);
  return isFine;
}

/// Skips to the next line, or to the end of the block. Blocks on the way are read for their errors.
void ProgramParser::recover(size_t start) {
  if (cursor_.position() == start && !cursor_.at(TokenKind::RightBrace) &&
      !cursor_.at(TokenKind::LeftBrace))
    cursor_.take();
  while (!cursor_.at(TokenKind::End) && !cursor_.at(TokenKind::RightBrace) &&
         !(cursor_.peek().startsLine && cursor_.position() != start))
    if (cursor_.at(TokenKind::LeftBrace))
      parseOrphanBlock();
    else
      cursor_.take();
}

/// Parses a block whose header was malformed, and discards its nodes.
void ProgramParser::parseOrphanBlock() {
  Block dropped;
  ++lenient_;
  parseBlock(dropped);
  --lenient_;
}

//===----------------------------------------------------------------------------------------===//
// One method per node
//===----------------------------------------------------------------------------------------===//

/// '%'id '=' 'allocate' ('symmetric' | 'device') ttype
bool ProgramParser::parseAllocate(const Statement &statement) {
  MemorySpace space = MemorySpace::Symmetric;
  if (cursor_.acceptWord("device"))
    space = MemorySpace::Device;
  else if (!cursor_.acceptWord("symmetric"))
    return cursor_.expected("'symmetric' or 'device'");
  std::optional<TensorType> type = parseType();
  if (!type)
    return false;
  llvm::StringRef name = statement.result->name();
  return define(*statement.result, builder_.allocate(name, space, std::move(*type)));
}

/// 'deallocate' value
bool ProgramParser::parseDeallocate(const Statement &) {
  Value *buffer = parseValue();
  return buffer && builder_.deallocate(buffer);
}

/// 'for' '%'id 'in' scalar '..' scalar block
bool ProgramParser::parseFor(const Statement &) {
  const Token *index = cursor_.expect(TokenKind::ValueName);
  if (!index || !cursor_.expectWord("in"))
    return false;
  const Scalar *begin = parseScalar();
  if (!begin || !cursor_.expect(TokenKind::Range))
    return false;
  const Scalar *end = parseScalar();
  if (!end || !cursor_.at(TokenKind::LeftBrace))
    return end && cursor_.expected("'{'");
  ForOp *loop = builder_.forLoop(index->name(), begin, end);
  size_t visibleBefore = order_.size();
  declare(*index, nullptr, loop->index);
  bool isFine = parseBlock(loop->body);
  leaveScope(visibleBefore);
  return isFine;
}

/// 'if' scalar cmp scalar block ['else' (block | if-op)]
bool ProgramParser::parseIf(const Statement &) {
  const Scalar *condition = parseCondition();
  if (!condition || !cursor_.at(TokenKind::LeftBrace))
    return condition && cursor_.expected("'{'");
  IfOp *branch = builder_.ifOp(condition);
  if (!parseBlock(branch->thenBlock))
    return false;
  return !cursor_.acceptWord("else") || parseElse(*branch);
}

bool ProgramParser::parseElse(IfOp &branch) {
  if (!cursor_.atWord("if"))
    return parseBlock(branch.elseBlock);
  if (isTooDeep())
    return false;
  Statement nested{nullptr, &cursor_.take()};
  Block *outer = std::exchange(current_, &branch.elseBlock);
  builder_.insertAtEnd(branch.elseBlock);
  builder_.setLocation(nested.location());
  ++depth_;
  bool isFine = parseIf(nested);
  --depth_;
  current_ = outer;
  builder_.insertAtEnd(*outer);
  return isFine;
}

/// scalar ('==' | '!=' | '<' | '<=' | '>' | '>=') scalar
const Scalar *ProgramParser::parseCondition() {
  static constexpr std::pair<TokenKind, ScalarKind> kComparisons[] = {
      {TokenKind::Equal, ScalarKind::Eq},   {TokenKind::NotEqual, ScalarKind::Ne},
      {TokenKind::Less, ScalarKind::Lt},    {TokenKind::LessEqual, ScalarKind::Le},
      {TokenKind::Greater, ScalarKind::Gt}, {TokenKind::GreaterEqual, ScalarKind::Ge}};
  const Scalar *lhs = parseScalar();
  if (!lhs)
    return nullptr;
  const auto *found = llvm::find_if(
      kComparisons, [&](const auto &candidate) { return cursor_.at(candidate.first); });
  if (found == std::end(kComparisons)) {
    cursor_.expected("a comparison (==, !=, <, <=, > or >=)");
    return nullptr;
  }
  Location location = cursor_.take().location;
  const Scalar *rhs = parseScalar();
  return rhs ? combine(found->second, lhs, rhs, location) : nullptr;
}

/// '%'id '=' 'select' value '[' scalar ']'
bool ProgramParser::parseSelect(const Statement &statement) {
  Value *tensor = parseValue();
  if (!tensor || !cursor_.expect(TokenKind::LeftBracket))
    return false;
  const Scalar *index = parseScalar();
  if (!index || !cursor_.expect(TokenKind::RightBracket))
    return false;
  return define(*statement.result, builder_.select(statement.result->name(), tensor, index));
}

/// '%'id '=' 'slice' value '[' scalar '..' scalar ']'
bool ProgramParser::parseSlice(const Statement &statement) {
  Value *tensor = parseValue();
  if (!tensor || !cursor_.expect(TokenKind::LeftBracket))
    return false;
  const Scalar *begin = parseScalar();
  if (!begin || !cursor_.expect(TokenKind::Range))
    return false;
  const Scalar *end = parseScalar();
  if (!end || !cursor_.expect(TokenKind::RightBracket))
    return false;
  return define(*statement.result, builder_.slice(statement.result->name(), tensor, begin, end));
}

/// '%'id '=' 'flatten' value
bool ProgramParser::parseFlatten(const Statement &statement) {
  Value *tensor = parseValue();
  return tensor && define(*statement.result, builder_.flatten(statement.result->name(), tensor));
}

bool ProgramParser::parseValues(llvm::SmallVectorImpl<Value *> &values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (i != 0 && !cursor_.expect(TokenKind::Comma))
      return false;
    values.push_back(parseValue());
    if (!values.back())
      return false;
  }
  return true;
}

/// 'set' value ',' value
bool ProgramParser::parseSet(const Statement &) {
  llvm::SmallVector<Value *, 2> operands;
  return parseValues(operands, 2) && builder_.set(operands[0], operands[1]);
}

/// ['add' value]
bool ProgramParser::parseAddend(Value *&addend) {
  return !cursor_.acceptWord("add") || (addend = parseValue());
}

/// 'matmul' value ',' value ',' value ['add' value]
bool ProgramParser::parseMatmul(const Statement &) {
  llvm::SmallVector<Value *, 3> operands;
  Value *addend = nullptr;
  return parseValues(operands, 3) && parseAddend(addend) &&
         builder_.matmul(operands[0], operands[1], operands[2], addend);
}

/// 'linear' value ',' value ',' value [',' value] ['add' value]
bool ProgramParser::parseLinear(const Statement &) {
  llvm::SmallVector<Value *, 3> operands;
  Value *bias = nullptr, *addend = nullptr;
  if (!parseValues(operands, 3) || (cursor_.accept(TokenKind::Comma) && !(bias = parseValue())))
    return false;
  return parseAddend(addend) &&
         builder_.linear(operands[0], operands[1], operands[2], bias, addend);
}

/// 'sum' value ',' value ['[' scalar '..' scalar ']'] [',' value]
bool ProgramParser::parseSum(const Statement &) {
  llvm::SmallVector<Value *, 2> operands;
  if (!parseValues(operands, 2))
    return false;
  const Scalar *begin = nullptr, *end = nullptr;
  if (cursor_.accept(TokenKind::LeftBracket) &&
      (!(begin = parseScalar()) || !cursor_.expect(TokenKind::Range) || !(end = parseScalar()) ||
       !cursor_.expect(TokenKind::RightBracket)))
    return false;
  Value *bias = nullptr;
  if (cursor_.accept(TokenKind::Comma) && !(bias = parseValue()))
    return false;
  return builder_.sum(operands[0], operands[1], begin, end, bias);
}

/// 'pointwise' value ',' expression
bool ProgramParser::parsePointwise(const Statement &) {
  Value *dst = parseValue();
  if (!dst || !cursor_.expect(TokenKind::Comma))
    return false;
  Value *first = nullptr;
  std::vector<PointwiseStep<Value *>> steps;
  return parseExpression(first, steps) && builder_.pointwise(dst, first, steps);
}

/// expression := value | function '(' expression [',' value] ')'
bool ProgramParser::parseExpression(Value *&first, std::vector<PointwiseStep<Value *>> &steps) {
  llvm::SmallVector<PointwiseFunction, 4> functions; // the outermost first
  while (cursor_.at(TokenKind::Word)) {
    const Token &word = cursor_.peek();
    const auto function = pointwiseFromKeyword(word.text);
    if (!function)
      return cursor_.expected("a value or a function (" + llvm::join(pointwiseKeywords(), ", ") +
                              ")")
             << didYouMean(word.text, pointwiseKeywords());
    if (functions.size() == kMostPointwiseSteps)
      return cursor_.error(word.location)
             << "expected at most " << kMostPointwiseSteps << " functions in one another, got more";
    cursor_.take();
    if (!cursor_.expect(TokenKind::LeftParen))
      return false;
    functions.push_back(*function);
  }
  first = parseValue();
  if (!first)
    return false;
  for (PointwiseFunction function : llvm::reverse(functions)) {
    Value *operand = nullptr;
    if (isBinary(function) && (!cursor_.expect(TokenKind::Comma) || !(operand = parseValue())))
      return false;
    if (!cursor_.expect(TokenKind::RightParen))
      return false;
    steps.push_back({function, operand});
  }
  return true;
}

/// '%'id '=' 'share_mem_handles' ('get' | 'put') value (',' value)*
bool ProgramParser::parseShareMemHandles(const Statement &statement) {
  Protocol protocol = Protocol::Get;
  if (cursor_.acceptWord("put"))
    protocol = Protocol::Put;
  else if (!cursor_.acceptWord("get"))
    return cursor_.expected("'get' or 'put'");
  llvm::SmallVector<Value *, 2> buffers;
  do {
    if (!parseValues(buffers, 1))
      return false;
  } while (cursor_.accept(TokenKind::Comma));
  llvm::StringRef name = statement.result->name();
  return define(*statement.result, builder_.shareMemHandles(name, protocol, buffers));
}

/// '%'id '=' 'p2p' ('send' sent 'to' | 'recv' value 'from') scalar 'via' value
bool ProgramParser::parseP2P(const Statement &statement) {
  bool isSend = cursor_.acceptWord("send");
  if (!isSend && !cursor_.acceptWord("recv"))
    return cursor_.expected("'send' or 'recv'");
  Value *tensor = nullptr;
  std::optional<SentGemm> gemm;
  if (isSend && cursor_.at(TokenKind::Word))
    gemm = parseSentGemm();
  else
    tensor = parseValue();
  if ((!gemm && !tensor) || !cursor_.expectWord(isSend ? "to" : "from"))
    return false;
  const Scalar *peer = parseScalar();
  if (!peer || !cursor_.expectWord("via"))
    return false;
  Value *handles = parseValue();
  if (!handles)
    return false;
  llvm::StringRef name = statement.result->name();
  if (!gemm)
    return define(*statement.result, isSend ? builder_.send(name, tensor, peer, handles)
                                            : builder_.receive(name, tensor, peer, handles));
  Value *a = gemm->operands[0], *b = gemm->operands[1];
  MatmulOp *op = builder_.matmul(nullptr, a, b, gemm->addend);
  op->transposeB = gemm->isLinear;
  return define(*statement.result, builder_.send(name, *op, gemm->type, peer, handles));
}

/// ('matmul' | 'linear') value ',' value ['add' value] ':' dtype '[' [scalar (',' scalar)*] ']'
std::optional<ProgramParser::SentGemm> ProgramParser::parseSentGemm() {
  SentGemm gemm{cursor_.acceptWord("linear")};
  if (!gemm.isLinear && !cursor_.acceptWord("matmul")) {
    cursor_.expected("a value, 'matmul' or 'linear'")
        << didYouMean(cursor_.peek().text, {"matmul", "linear"});
    return std::nullopt;
  }
  if (!parseValues(gemm.operands, 2) || !parseAddend(gemm.addend))
    return std::nullopt;
  if (!gemm.addend && cursor_.at(TokenKind::Word)) {
    cursor_.expected("'add' or ':'") << didYouMean(cursor_.peek().text, {"add"});
    return std::nullopt;
  }
  if (!cursor_.expect(TokenKind::Colon))
    return std::nullopt;
  std::optional<TensorType> type = parseType(&ProgramParser::parseScalar);
  if (!type)
    return std::nullopt;
  gemm.type = std::move(*type);
  return gemm;
}

/// 'group' block
bool ProgramParser::parseGroup(const Statement &) {
  if (!cursor_.at(TokenKind::LeftBrace))
    return cursor_.expected("'{'");
  return parseBlock(builder_.group()->body, Scope::Outer);
}

/// '%'id '=' 'collective' kind [operator] value ',' value ['team' '[' scalar,* ']'] ['root' scalar]
bool ProgramParser::parseCollective(const Statement &statement) {
  std::optional<CollectiveKind> kind = parseCollectiveKind();
  if (!kind)
    return false;
  std::optional<ReductionOperator> reduction;
  if (cursor_.at(TokenKind::Word)) {
    reduction = reductionFromName(cursor_.peek().text);
    if (!reduction)
      return cursor_.expected("an operator (sum, prod, min or max) or a value");
    cursor_.take();
  }
  llvm::SmallVector<Value *, 2> operands;
  llvm::SmallVector<const Scalar *, 4> team;
  if (!parseValues(operands, 2) || (cursor_.acceptWord("team") && !parseTeam(team)))
    return false;
  const Scalar *root = nullptr;
  if (cursor_.acceptWord("root") && !(root = parseScalar()))
    return false;
  return define(*statement.result, builder_.collective(statement.result->name(), *kind, reduction,
                                                       operands[0], operands[1], team, root));
}

std::optional<CollectiveKind> ProgramParser::parseCollectiveKind() {
  std::optional<CollectiveKind> kind;
  if (cursor_.at(TokenKind::Word))
    kind = collectiveFromName(cursor_.peek().text);
  if (kind)
    cursor_.take();
  else
    cursor_.expected("a collective (allgather, reduce_scatter, allreduce, broadcast, reduce or "
                     "alltoall)");
  return kind;
}

/// '[' scalar (',' scalar)* ']'
bool ProgramParser::parseTeam(llvm::SmallVectorImpl<const Scalar *> &team) {
  if (!cursor_.expect(TokenKind::LeftBracket))
    return false;
  do {
    const Scalar *member = parseScalar();
    if (!member)
      return false;
    team.push_back(member);
  } while (cursor_.accept(TokenKind::Comma));
  return cursor_.expect(TokenKind::RightBracket, "',' or ']'");
}

/// 'wait' value
bool ProgramParser::parseWait(const Statement &) {
  Value *request = parseValue();
  return request && builder_.wait(request);
}

/// 'synchronize' stream
bool ProgramParser::parseSynchronize(const Statement &) {
  std::optional<StreamRef> stream = parseStream();
  return stream && builder_.synchronize(*stream);
}

/// '%'id '=' 'get_current_stream'
bool ProgramParser::parseGetCurrentStream(const Statement &statement) {
  return define(*statement.result, builder_.getCurrentStream(statement.result->name()));
}

/// 'set_current_stream' stream
bool ProgramParser::parseSetCurrentStream(const Statement &) {
  std::optional<StreamRef> stream = parseStream();
  return stream && builder_.setCurrentStream(*stream);
}

/// stream := value | 'stream' '(' scalar ')'
std::optional<StreamRef> ProgramParser::parseStream() {
  if (cursor_.at(TokenKind::ValueName)) {
    Value *named = parseValue();
    return named ? std::optional<StreamRef>({named, nullptr}) : std::nullopt;
  }
  if (!cursor_.acceptWord("stream")) {
    cursor_.expected("a stream ('%s' or 'stream(i)')");
    return std::nullopt;
  }
  if (!cursor_.expect(TokenKind::LeftParen))
    return std::nullopt;
  const Scalar *index = parseScalar();
  if (!index || !cursor_.expect(TokenKind::RightParen))
    return std::nullopt;
  return StreamRef{nullptr, index};
}

//===----------------------------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------------------------===//

/// value := '%'id, visible here
Value *ProgramParser::parseValue() {
  const Token *token = cursor_.expect(TokenKind::ValueName);
  if (!token)
    return nullptr;
  auto found = visible_.find(token->name().str());
  if (found == visible_.end()) {
    reportUnknown(*token, "value");
    return nullptr;
  }
  if (found->second.index)
    cursor_.error(token->location).note(found->second.location, "defined here")
        << "expected a value, got the loop index '" << token->text << "'";
  return found->second.value;
}

/// id in a scalar: 'rank' or '%'id of a loop around it
const Scalar *ProgramParser::resolve(const Token &name) {
  if (name.kind == TokenKind::Word && name.text == "rank")
    return scalars_.rank();
  if (name.kind == TokenKind::Word) {
    cursor_.expected("'rank', a loop index or an integer") << didYouMean(name.text, {"rank"});
    return nullptr;
  }
  auto found = visible_.find(name.name().str());
  if (found == visible_.end()) {
    reportUnknown(name, "loop index");
    return nullptr;
  }
  if (const Value *value = found->second.value)
    cursor_.error(name.location).note(found->second.location, "defined here")
        << "expected a loop index, got the " << braid::name(value->kind) << " '" << name.text
        << "'";
  return found->second.index;
}

void ProgramParser::reportUnknown(const Token &name, llvm::StringRef what) {
  if (lenient_ > 0)
    return;
  std::string nearest = nearestName(name.name(), namesOf(visible_));
  cursor_.error(name.location) << "unknown " << what << " '" << name.text << "'"
                               << (nearest.empty() ? "" : " (did you mean '%" + nearest + "'?)");
}

bool ProgramParser::declare(const Token &name, Value *value, const Scalar *index) {
  std::string key = name.name().str();
  auto [entry, isNew] = visible_.try_emplace(key, Entry{value, index, name.location});
  if (isNew)
    order_.push_back(std::move(key));
  else
    cursor_.error(name.location).note(entry->second.location, "first defined here")
        << "redefinition of '" << name.text << "'";
  return true;
}

/// A later use of a value that could not be read is no further error.
void ProgramParser::poison(const Token &name) {
  std::string key = name.name().str();
  if (visible_.try_emplace(key, Entry{nullptr, nullptr, name.location}).second)
    order_.push_back(std::move(key));
}

void ProgramParser::leaveScope(size_t visibleBefore) {
  while (order_.size() > visibleBefore) {
    visible_.erase(order_.back());
    order_.pop_back();
  }
}

} // namespace

/// program := 'program' '@'id ['implements' '@'id] 'mesh' '[' '0' '..' integer ')' ['of' integer]
///            ...
std::unique_ptr<Program> parseProgram(TokenCursor &cursor) {
  Location location = cursor.take().location;
  const Token *name = cursor.expect(TokenKind::Symbol);
  const Token *implements = nullptr;
  int64_t ranks = 0;
  std::optional<int64_t> hostSize;
  auto parseFirstLine = [&] {
    if (!name)
      return false;
    if (cursor.acceptWord("implements") && !(implements = cursor.expect(TokenKind::Symbol)))
      return false;
    if (!cursor.expectWord("mesh") || !parseMeshStart(cursor))
      return false;
    std::optional<int64_t> size = parseInteger(cursor, /*isSigned=*/false);
    ranks = size.value_or(0);
    if (!size || !cursor.expect(TokenKind::RightParen))
      return false;
    return !cursor.acceptWord("of") || (hostSize = parseInteger(cursor, /*isSigned=*/false));
  };
  bool isBroken = !parseFirstLine();
  auto program = std::make_unique<Program>(name ? name->name().str() : "",
                                           implements ? implements->name().str() : "", ranks,
                                           location, hostSize);
  ProgramParser(cursor, *program).run(isBroken);
  return name ? std::move(program) : nullptr;
}

} // namespace braid
