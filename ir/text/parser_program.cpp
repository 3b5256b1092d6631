//===- ir/text/parser_program.cpp - parses host programs --------------------------------------===//

#include "ir/builder.h"
#include "ir/syntax.h"
#include "ir/text/parser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

class ProgramParser : public StatementParser {
public:
  ProgramParser(TokenCursor &cursor, Program &program)
      : StatementParser(cursor, program.scalars()), builder_(program) {}
  /// Parses everything after the mesh. `isHeaderBroken` is true if the header so far has an error.
  void run(bool isHeaderBroken);

private:
  class Reader;
  /// The definition of a visible name. Both pointers are null if the definition was invalid.
  struct Entry {
    Value *value = nullptr;
    const Scalar *index = nullptr;
    Location location;
  };
  using MakeDeclared = Value *(ProgramBuilder::*)(llvm::StringRef, TensorType);

  bool parseDeclarations(MakeDeclared make);
  bool parseDeclaration(MakeDeclared make);
  using ParseExtent = const Scalar *(ProgramParser::*)();
  std::optional<TensorType> parseType(ParseExtent parseExtent = &ProgramParser::parseConstant);
  const Scalar *parseConstant();

  /// Scope of the names defined in a block: the block itself or, for groups, the enclosing block.
  enum class Scope { Own, Outer };
  bool parseBlock(Block &block, Scope scope = Scope::Own);
  /// Reports an error and returns true if another level of blocks would exceed the nesting limit.
  bool isTooDeep();
  bool parseOperation(const Statement &statement) override;
  /// Parses a block whose header was malformed, then discards its nodes.
  void skipBlock() override;

  template <class OpClass> bool parseNode(const Statement &statement);
  bool parseBlocks(Op &) { return true; }
  bool parseBlocks(ForOp &loop);
  bool parseBlocks(IfOp &branch);
  bool parseBlocks(GroupOp &group) { return parseBlock(group.body, Scope::Outer); }
  bool parseElse(IfOp &branch);

  Value *parseValue();
  const Scalar *parseCondition();
  const Scalar *resolve(const Token &name) override;
  void reportUnknown(const Token &name, llvm::StringRef what);

  /// Makes a name visible.
  void declare(const Token &name, Value *value, const Scalar *index);
  /// Suppresses errors about later uses of a value that could not be parsed.
  void poison(const Token &name) override;
  void leaveScope(size_t visibleBefore);

  ProgramBuilder builder_;
  std::map<std::string, Entry> visible_;
  std::vector<std::string> order_;   ///< the names in visible_, in order of definition
  Block *current_ = nullptr;         ///< the builder's insertion block
  const Token *loopIndex_ = nullptr; ///< the index in the most recent `for` header
  int depth_ = 0;
  bool wasTooDeep_ = false; ///< true once the nesting error has been reported
  /// While positive, unknown names are not reported, because an earlier error may be the cause.
  int lenient_ = 0;
};

//===----------------------------------------------------------------------------------------===//
// Header
//===----------------------------------------------------------------------------------------===//

/// program := ... '(' [decl,*] ')' '->' '(' [decl,*] ')' block
void ProgramParser::run(bool isHeaderBroken) {
  if (isHeaderBroken || !parseDeclarations(&ProgramBuilder::param) || !cursor_.expect("->") ||
      !parseDeclarations(&ProgramBuilder::result)) {
    ++lenient_;
    if (!cursor_.skipToBrace())
      return;
  }
  parseBlock(builder_.program().body());
}

/// '(' [decl (',' decl)*] ')'
bool ProgramParser::parseDeclarations(MakeDeclared make) {
  if (!cursor_.expect("("))
    return false;
  if (cursor_.accept(")"))
    return true;
  do {
    if (!parseDeclaration(make))
      return false;
  } while (cursor_.accept(","));
  return cursor_.expect(")", "',' or ')'");
}

/// decl := '%'id ':' ttype
bool ProgramParser::parseDeclaration(MakeDeclared make) {
  const Token *name = cursor_.expect(TokenKind::ValueName);
  if (!name || !cursor_.expect(":"))
    return false;
  std::optional<TensorType> type = parseType();
  if (!type)
    return false;
  builder_.setLocation(name->location);
  declare(*name, (builder_.*make)(name->name(), std::move(*type)), nullptr);
  return true;
}

/// ttype := dtype '[' [scalar (',' scalar)*] ']'
std::optional<TensorType> ProgramParser::parseType(ParseExtent parseExtent) {
  std::optional<DType> dtype = parseDType(cursor_);
  if (!dtype || !cursor_.expect("["))
    return std::nullopt;
  TensorType type{*dtype, {}};
  if (cursor_.accept("]"))
    return type;
  do {
    type.shape.push_back((this->*parseExtent)());
    if (!type.shape.back())
      return std::nullopt;
  } while (cursor_.accept(","));
  if (!cursor_.expect("]", "',' or ']'"))
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
  if (!cursor_.at("{"))
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
  // Errors in the statements have been reported, and do not affect the rest of the program.
  cursor_.expectClosingBrace(open);
  return true;
}

bool ProgramParser::isTooDeep() {
  if (depth_ < kMaxNesting)
    return false;
  if (!std::exchange(wasTooDeep_, true))
    cursor_.error(cursor_.peek().location)
        << "blocks are nested too deeply; expected at most " << kMaxNesting << " levels";
  return true;
}

/// op := ['%'id '='] keyword ...
bool ProgramParser::parseOperation(const Statement &statement) {
  struct Rule {
    llvm::StringLiteral keyword;
    bool hasResult;
    bool (ProgramParser::*parse)(const Statement &);
  };
  static constexpr Rule kRules[] = {
#define BRAID_OP(Kind, keyword, results, summary)                                                  \
  {keyword, results != 0, &ProgramParser::parseNode<Kind##Op>},
#include "ir/program_kinds.def"
      {"linear", false, &ProgramParser::parseNode<MatmulOp>},
  };
  llvm::StringRef word = statement.keyword->text;
  const auto *rule =
      llvm::find_if(kRules, [&](const Rule &candidate) { return candidate.keyword == word; });
  if (rule == std::end(kRules)) {
    std::vector<std::string> keywords;
    for (const Rule &known : kRules)
      keywords.push_back(known.keyword.str());
    return cursor_.expected("an operation")
           << (word == "reduce" ? "; 'sum %dst, %parts' adds the entries of one tensor"
                                : didYouMean(word, keywords));
  }
  if (rule->hasResult && !statement.result)
    return cursor_.error(statement.keyword->location)
           << "'" << word << "' defines a value; expected '%x = " << word << " ...'";
  if (!rule->hasResult && statement.result)
    return cursor_.error(statement.result->location)
           << "'" << word << "' does not define a value; expected '" << word << " ...'";
  cursor_.take();
  builder_.setLocation(statement.location());
  return (this->*rule->parse)(statement);
}

void ProgramParser::skipBlock() {
  Block dropped;
  ++lenient_;
  parseBlock(dropped);
  --lenient_;
}

bool ProgramParser::parseBlocks(ForOp &loop) {
  size_t visibleBefore = order_.size();
  declare(*loopIndex_, nullptr, loop.index);
  bool isFine = parseBlock(loop.body);
  leaveScope(visibleBefore);
  return isFine;
}

/// block ['else' (block | if-op)]
bool ProgramParser::parseBlocks(IfOp &branch) {
  return parseBlock(branch.thenBlock) && (!cursor_.accept("else") || parseElse(branch));
}

bool ProgramParser::parseElse(IfOp &branch) {
  if (!cursor_.at("if"))
    return parseBlock(branch.elseBlock);
  if (isTooDeep())
    return false;
  Statement nested{nullptr, &cursor_.take()};
  Block *outer = std::exchange(current_, &branch.elseBlock);
  builder_.insertAtEnd(branch.elseBlock);
  builder_.setLocation(nested.location());
  ++depth_;
  bool isFine = parseNode<IfOp>(nested);
  --depth_;
  current_ = outer;
  builder_.insertAtEnd(*outer);
  return isFine;
}

//===----------------------------------------------------------------------------------------===//
// The parts of a node
//===----------------------------------------------------------------------------------------===//

/// Parses the parts listed by syntax() (ir/syntax.h), up to the first error.
class ProgramParser::Reader : public IgnoreParts {
public:
  explicit Reader(ProgramParser &parser) : parser_(parser), cursor_(parser.cursor_) {}
  bool isFine() const { return isFine_; }

  void text(llvm::StringRef separator, llvm::StringRef expected = "");
  bool optional(llvm::StringRef separator, bool, bool mayStand = true) {
    return isFine_ && mayStand && cursor_.accept(separator.trim());
  }
  template <class Enum>
  void choice(llvm::StringRef, Enum &field, Enum last, llvm::StringRef expected);
  void reduction(std::optional<ReductionOperator> &reduction);
  void value(llvm::StringRef, Value *&value) {
    isFine_ = isFine_ && (value = parser_.parseValue());
  }
  void scalar(llvm::StringRef, const Scalar *&scalar) {
    isFine_ = isFine_ && (scalar = parser_.parseScalar());
  }
  template <class Item> void list(llvm::StringRef key, llvm::SmallVectorImpl<Item> &items) {
    do
      if constexpr (std::is_same_v<Item, Value *>)
        value(key, items.emplace_back());
      else
        scalar(key, items.emplace_back());
    while (optional(", ", true));
  }
  void loopIndex(const Scalar *&index);
  void condition(const Scalar *&condition) {
    isFine_ = isFine_ && (condition = parser_.parseCondition());
  }
  void stream(StreamRef &stream);
  void type(TensorType &type) { readType(type, &ProgramParser::parseConstant); }
  void chain(PointwiseOp &op);
  void payload(P2POp &op);

private:
  void readType(TensorType &type, ParseExtent parseExtent);
  bool readFunctions(llvm::SmallVectorImpl<PointwiseFunction> &functions);

  ProgramParser &parser_;
  TokenCursor &cursor_;
  bool isFine_ = true;
};

void ProgramParser::Reader::text(llvm::StringRef separator, llvm::StringRef expected) {
  llvm::StringRef word = separator.trim();
  if (!isFine_ || word.empty() || cursor_.accept(word))
    return;
  isFine_ = cursor_.expected(expected.empty() ? "'" + word.str() + "'" : expected.str());
}

template <class Enum>
void ProgramParser::Reader::choice(llvm::StringRef, Enum &field, Enum last,
                                   llvm::StringRef expected) {
  const std::optional<Enum> found = enumFromName(cursor_.peek().text, last);
  if (!found) {
    isFine_ = cursor_.expected(expected);
    return;
  }
  field = *found;
  cursor_.take();
}

void ProgramParser::Reader::reduction(std::optional<ReductionOperator> &reduction) {
  if (isFine_ && cursor_.at(TokenKind::Word))
    choice("", reduction.emplace(), ReductionOperator::Max,
           "an operator (sum, prod, min or max) or a value");
}

void ProgramParser::Reader::loopIndex(const Scalar *&index) {
  parser_.loopIndex_ = cursor_.expect(TokenKind::ValueName);
  isFine_ = parser_.loopIndex_ != nullptr;
  if (isFine_)
    index = parser_.scalars_.addLoopIndex(parser_.loopIndex_->name());
}

/// stream := value | 'stream' '(' scalar ')'
void ProgramParser::Reader::stream(StreamRef &stream) {
  if (cursor_.at(TokenKind::ValueName))
    return value("", stream.named);
  text("stream", "a stream ('%s' or 'stream(i)')");
  text("(");
  scalar("", stream.index);
  text(")");
}

void ProgramParser::Reader::readType(TensorType &type, ParseExtent parseExtent) {
  std::optional<TensorType> read;
  if (isFine_)
    read = parser_.parseType(parseExtent);
  isFine_ = read.has_value();
  if (isFine_)
    type = std::move(*read);
}

/// chain := value | function '(' chain [',' value] ')'
void ProgramParser::Reader::chain(PointwiseOp &op) {
  llvm::SmallVector<PointwiseFunction, 4> functions; // outermost first
  isFine_ = isFine_ && readFunctions(functions);
  value("first", op.first);
  for (PointwiseFunction function : llvm::reverse(functions)) {
    Value *operand = nullptr;
    if (isBinary(function)) {
      text(", ");
      value("operand", operand);
    }
    text(")");
    op.steps.push_back({function, operand});
  }
}

/// (function '(')*
bool ProgramParser::Reader::readFunctions(llvm::SmallVectorImpl<PointwiseFunction> &functions) {
  while (cursor_.at(TokenKind::Word)) {
    const Token &word = cursor_.peek();
    const auto function = pointwiseFromKeyword(word.text);
    if (!function)
      return cursor_.expected("a value or a function (" + llvm::join(pointwiseKeywords(), ", ") +
                              ")")
             << didYouMean(word.text, pointwiseKeywords());
    if (functions.size() == kMostPointwiseSteps)
      return cursor_.error(word.location) << "functions are nested too deeply; expected at most "
                                          << kMostPointwiseSteps << " levels";
    cursor_.take();
    if (!cursor_.expect("("))
      return false;
    functions.push_back(*function);
  }
  return true;
}

/// value, or, in a send only: ('matmul' | 'linear') value ',' value ['add' value] ':' ttype
///
/// The extents of the ttype need not be constant.
void ProgramParser::Reader::payload(P2POp &op) {
  if (op.direction == Direction::Receive || !cursor_.at(TokenKind::Word))
    return value("tensor", op.tensor);
  op.gemm.emplace(op.location());
  op.gemm->transposeB = cursor_.accept("linear");
  if (isFine_ && !op.gemm->transposeB && !cursor_.accept("matmul"))
    isFine_ = cursor_.expected("a value, 'matmul' or 'linear'")
              << didYouMean(cursor_.peek().text, {"matmul", "linear"});
  value("a", op.gemm->a);
  text(", ");
  value("b", op.gemm->b);
  if (optional(" add ", true))
    value("addend", op.gemm->addend);
  else if (isFine_ && cursor_.at(TokenKind::Word))
    isFine_ = cursor_.expected("'add' or ':'") << didYouMean(cursor_.peek().text, {"add"});
  text(" : ");
  readType(op.product.type, &ProgramParser::parseScalar);
}

template <class OpClass> bool ProgramParser::parseNode(const Statement &statement) {
  auto made = builder_.make<OpClass>();
  if constexpr (std::is_same_v<OpClass, MatmulOp>)
    made->transposeB = statement.keyword->text == "linear";
  Reader reader(*this);
  syntax(reader, *made);
  if (!reader.isFine())
    return false;
  llvm::StringRef name = statement.result ? statement.result->name() : "";
  auto &op = *llvm::cast<OpClass>(builder_.insert(std::move(made), name));
  if (statement.result)
    declare(*statement.result, resultOf(op), nullptr);
  return parseBlocks(op);
}

/// scalar ('==' | '!=' | '<' | '<=' | '>' | '>=') scalar
const Scalar *ProgramParser::parseCondition() {
  static constexpr ScalarKind kComparisons[] = {ScalarKind::Eq, ScalarKind::Ne, ScalarKind::Lt,
                                                ScalarKind::Le, ScalarKind::Gt, ScalarKind::Ge};
  const Scalar *lhs = parseScalar();
  if (!lhs)
    return nullptr;
  const auto *found =
      llvm::find_if(kComparisons, [&](ScalarKind kind) { return cursor_.at(symbol(kind)); });
  if (found == std::end(kComparisons)) {
    cursor_.expected("a comparison (==, !=, <, <=, > or >=)");
    return nullptr;
  }
  Location location = cursor_.take().location;
  const Scalar *rhs = parseScalar();
  return rhs ? combine(*found, lhs, rhs, location) : nullptr;
}

//===----------------------------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------------------------===//

/// value := '%'id, which must be visible here
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

/// id in a scalar: 'rank', or the '%'id of an enclosing loop
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
  if (lenient_ == 0)
    StatementParser::reportUnknown(name, what, namesOf(visible_));
}

void ProgramParser::declare(const Token &name, Value *value, const Scalar *index) {
  std::string key = name.name().str();
  auto [entry, isNew] = visible_.try_emplace(key, Entry{value, index, name.location});
  if (isNew)
    order_.push_back(std::move(key));
  else
    cursor_.error(name.location).note(entry->second.location, "first defined here")
        << "redefinition of '" << name.text << "'";
}

/// Suppresses errors about later uses of a value that could not be parsed.
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
    if (cursor.accept("implements") && !(implements = cursor.expect(TokenKind::Symbol)))
      return false;
    if (!cursor.expect("mesh") || !parseMeshStart(cursor))
      return false;
    std::optional<int64_t> size = parseInteger(cursor, /*isSigned=*/false);
    ranks = size.value_or(0);
    if (!size || !cursor.expect(")"))
      return false;
    return !cursor.accept("of") || (hostSize = parseInteger(cursor, /*isSigned=*/false));
  };
  bool isBroken = !parseFirstLine();
  auto program = std::make_unique<Program>(name ? name->name().str() : "",
                                           implements ? implements->name().str() : "", ranks,
                                           location, hostSize);
  ProgramParser(cursor, *program).run(isBroken);
  return name ? std::move(program) : nullptr;
}

} // namespace braid
