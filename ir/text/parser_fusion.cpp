//===- ir/text/parser_fusion.cpp - parses fusions ---------------------------------------------===//

#include "ir/text/parser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

class FusionParser : public StatementParser {
public:
  FusionParser(TokenCursor &cursor, Fusion &fusion, bool isHeaderBroken)
      : StatementParser(cursor, fusion.scalars()), fusion_(fusion), builder_(fusion),
        isHeaderBroken_(isHeaderBroken) {}
  void run();

private:
  struct Rule {
    llvm::StringLiteral keyword;
    bool (FusionParser::*parse)(const Statement &);
  };
  struct Entry {
    FusionTensor *tensor; ///< null if the definition was invalid
    Location location;
  };

  bool parseParameters();
  bool parseParameter();
  bool parseMesh();
  bool parseOperation(const Statement &statement) override;
  void reportUnknownOperation(llvm::StringRef word, llvm::ArrayRef<Rule> rules);
  void skipBlock() override { cursor_.skipBraces(); } // an axis's braces
#define BRAID_FUSION_OP(Kind, keyword, summary) bool parse##Kind##Node(const Statement &statement);
#include "ir/fusion_kinds.def"

  bool parseType(FusionType &type);
  bool parsePartial(std::optional<DType> &partial);
  std::optional<Axis> parseAxis();
  FusionTensor *parseTensor();
  const Scalar *resolve(const Token &name) override;
  bool define(const Token &name, FusionTensor *tensor);
  /// Suppresses errors about later uses of a tensor that could not be parsed.
  void poison(const Token &name) override {
    tensors_.try_emplace(name.name().str(), Entry{nullptr, name.location});
  }

  Fusion &fusion_;
  FusionBuilder builder_;
  std::map<std::string, Entry> tensors_;
  bool isHeaderBroken_; ///< if true, unknown parameters are not reported
};

/// fusion := 'fusion' '@'id ['(' [param (',' param)*] ')'] '{' mesh fstmt* '}'
void FusionParser::run() {
  isHeaderBroken_ = isHeaderBroken_ || !parseParameters();
  if (isHeaderBroken_)
    cursor_.skipToBrace();
  Location open = cursor_.peek().location;
  if (!cursor_.accept(TokenKind::LeftBrace)) {
    if (!isHeaderBroken_)
      cursor_.expected("'{'");
    return;
  }
  size_t start = cursor_.position();
  // If the mesh is missing and a statement follows, do not skip the statement.
  if (!parseMesh() && !(cursor_.position() == start && cursor_.at(TokenKind::ValueName)))
    recover(start);
  parseStatements();
  cursor_.expectClosingBrace(open);
}

bool FusionParser::parseParameters() {
  if (!cursor_.accept(TokenKind::LeftParen) || cursor_.accept(TokenKind::RightParen))
    return true;
  do {
    if (!parseParameter())
      return false;
  } while (cursor_.accept(TokenKind::Comma));
  return cursor_.expect(TokenKind::RightParen, "',' or ')'");
}

/// param := id '=' ['-'] integer
bool FusionParser::parseParameter() {
  const Token *name = cursor_.expect(TokenKind::Word, "a parameter");
  if (!name || !cursor_.expect(TokenKind::Assign))
    return false;
  std::optional<int64_t> value = parseInteger(cursor_, /*isSigned=*/true);
  if (!value)
    return false;
  if (isReserved(name->text))
    return cursor_.error(name->location) << "expected a name for the parameter, got '" << name->text
                                         << "', a keyword of the language";
  const FusionParameter *earlier = fusion_.findParameter(name->text);
  if (!earlier) {
    builder_.parameter(name->text, *value, name->location);
    return true;
  }
  cursor_.error(name->location).note(earlier->location, "first defined here")
      << "redefinition of parameter '" << name->text << "'";
  return true;
}

/// mesh := 'mesh' '[' '0' '..' scalar ')' ['of' scalar]
bool FusionParser::parseMesh() {
  Location location = cursor_.peek().location;
  if (!cursor_.expectWord("mesh") || !parseMeshStart(cursor_))
    return false;
  const Scalar *size = parseScalar();
  if (!size || !cursor_.expect(TokenKind::RightParen))
    return false;
  const Scalar *hostSize = nullptr;
  if (cursor_.acceptWord("of") && !(hostSize = parseScalar()))
    return false;
  builder_.mesh(size, location, hostSize);
  return true;
}

/// fstmt := ['%'id '='] keyword ...
bool FusionParser::parseOperation(const Statement &statement) {
  static constexpr Rule kRules[] = {
#define BRAID_FUSION_OP(Kind, keyword, summary) {keyword, &FusionParser::parse##Kind##Node},
#include "ir/fusion_kinds.def"
      {"linear", &FusionParser::parseMatmulNode},
  };
  const llvm::StringRef word = statement.keyword->text;
  const llvm::StringRef kind = pointwiseFromKeyword(word) ? keyword(FusionOpKind::Pointwise) : word;
  const auto *rule =
      llvm::find_if(kRules, [&](const Rule &candidate) { return candidate.keyword == kind; });
  if (rule == std::end(kRules)) {
    reportUnknownOperation(word, kRules);
    return false;
  }
  if (kind == keyword(FusionOpKind::Output) && statement.result)
    return cursor_.error(statement.result->location)
           << "'output' defines no tensor, expected 'output %x'";
  if (kind != keyword(FusionOpKind::Output) && !statement.result)
    return cursor_.error(statement.keyword->location)
           << "'" << word << "' defines a tensor, expected '%x = " << word << " ...'";
  cursor_.take();
  return (this->*rule->parse)(statement);
}

void FusionParser::reportUnknownOperation(llvm::StringRef word, llvm::ArrayRef<Rule> rules) {
  std::vector<std::string> keywords;
  for (const Rule &rule : rules)
    if (rule.keyword != keyword(FusionOpKind::Pointwise))
      keywords.push_back(rule.keyword.str());
  llvm::append_range(keywords, pointwiseKeywords());
  const std::string near = didYouMean(word, keywords);
  cursor_.expected("an operation")
      << (near.empty() ? "; there are " + llvm::join(keywords, ", ") : near);
}

/// '%'id '=' 'input' ftype
bool FusionParser::parseInputNode(const Statement &statement) {
  FusionType type;
  if (!parseType(type))
    return false;
  return define(*statement.result, builder_.input(statement.result->name(), type.dtype, type.axes,
                                                  statement.location()));
}

/// '%'id '=' ('matmul' value ',' value | 'linear' value ',' value [',' value])
///           ['partial' dtype] ':' ftype
bool FusionParser::parseMatmulNode(const Statement &statement) {
  const bool isLinear = statement.keyword->text == "linear";
  FusionTensor *a = parseTensor();
  if (!a || !cursor_.expect(TokenKind::Comma))
    return false;
  FusionTensor *b = parseTensor(), *bias = nullptr;
  if (b && !isLinear && cursor_.at(TokenKind::Comma))
    return cursor_.expected("':'")
           << "; 'linear %x, %w, %bias' adds a bias, and takes %w as [N, K]";
  if (!b || (cursor_.accept(TokenKind::Comma) && !(bias = parseTensor())))
    return false;
  FusionType type;
  std::optional<DType> partial;
  if (!parsePartial(partial) || !parseType(type))
    return false;
  const llvm::StringRef name = statement.result->name();
  const Location location = statement.location();
  return define(*statement.result,
                isLinear
                    ? builder_.linear(name, a, b, bias, type.axes, type.dtype, location, partial)
                    : builder_.matmul(name, a, b, type.axes, type.dtype, location, partial));
}

/// '%'id '=' function value [',' value] ':' ftype
bool FusionParser::parsePointwiseNode(const Statement &statement) {
  const auto function = pointwiseFromKeyword(statement.keyword->text);
  if (!function)
    return cursor_.error(statement.keyword->location)
           << "expected the name of a function (" << llvm::join(pointwiseKeywords(), ", ")
           << "), got '" << statement.keyword->text << "'";
  llvm::SmallVector<FusionTensor *, 2> operands;
  for (unsigned i = 0; i < operandCount(*function); ++i) {
    if (i != 0 && !cursor_.expect(TokenKind::Comma))
      return false;
    operands.push_back(parseTensor());
    if (!operands.back())
      return false;
  }
  FusionType type;
  if (!cursor_.expect(TokenKind::Colon) || !parseType(type))
    return false;
  return define(*statement.result, builder_.pointwise(statement.result->name(), *function, operands,
                                                      type.axes, type.dtype, statement.location()));
}

/// '%'id '=' 'reshard' value ':' ftype
bool FusionParser::parseReshardNode(const Statement &statement) {
  FusionType type;
  FusionTensor *a = parseTensor();
  if (!a || !cursor_.expect(TokenKind::Colon) || !parseType(type))
    return false;
  return define(*statement.result, builder_.reshard(statement.result->name(), a, type.axes,
                                                    type.dtype, statement.location()));
}

/// ['partial' dtype] ':'
bool FusionParser::parsePartial(std::optional<DType> &partial) {
  if (cursor_.acceptWord("partial") && !(partial = parseDType(cursor_)))
    return false;
  return cursor_.expect(TokenKind::Colon);
}

/// 'output' value (',' value)*
bool FusionParser::parseOutputNode(const Statement &statement) {
  llvm::SmallVector<FusionTensor *, 2> tensors;
  do {
    FusionTensor *tensor = parseTensor();
    if (!tensor)
      return false;
    tensors.push_back(tensor);
  } while (cursor_.accept(TokenKind::Comma));
  builder_.output(tensors, statement.location());
  return true;
}

/// ftype := dtype '[' axis (',' axis)* ']'
bool FusionParser::parseType(FusionType &type) {
  std::optional<DType> dtype = parseDType(cursor_);
  if (!dtype || !cursor_.expect(TokenKind::LeftBracket))
    return false;
  type.dtype = *dtype;
  do {
    std::optional<Axis> axis = parseAxis();
    if (!axis)
      return false;
    type.axes.push_back(*axis);
  } while (cursor_.accept(TokenKind::Comma));
  return cursor_.expect(TokenKind::RightBracket, "',' or ']'");
}

/// axis := scalar | 'DIDx' '{' scalar '}' | 'Stream' '{' scalar '}'
std::optional<Axis> FusionParser::parseAxis() {
  Axis axis;
  if (cursor_.acceptWord("DIDx"))
    axis.kind = AxisKind::DIDx;
  else if (cursor_.acceptWord("Stream"))
    axis.kind = AxisKind::Stream;
  bool hasBraces = axis.kind != AxisKind::Plain;
  if (hasBraces && !cursor_.expect(TokenKind::LeftBrace))
    return std::nullopt;
  axis.extent = parseScalar();
  if (axis.extent && (!hasBraces || cursor_.expect(TokenKind::RightBrace)))
    return axis;
  // Skip the closing brace of the axis, so that it does not end the fusion.
  while (hasBraces && !cursor_.peek().startsLine && !cursor_.at(TokenKind::End) &&
         !cursor_.accept(TokenKind::RightBrace))
    cursor_.take();
  return std::nullopt;
}

/// value := '%'id, which must be defined above
FusionTensor *FusionParser::parseTensor() {
  const Token *token = cursor_.expect(TokenKind::ValueName);
  if (!token)
    return nullptr;
  auto found = tensors_.find(token->name().str());
  if (found != tensors_.end())
    return found->second.tensor;
  reportUnknown(*token, "tensor", namesOf(tensors_));
  return nullptr;
}

const Scalar *FusionParser::resolve(const Token &name) {
  if (name.kind == TokenKind::ValueName || isReserved(name.text)) {
    cursor_.error(name.location) << "expected a parameter or an integer, got '" << name.text << "'";
    return nullptr;
  }
  if (const FusionParameter *parameter = fusion_.findParameter(name.text))
    return parameter->scalar;
  if (isHeaderBroken_)
    return nullptr;
  std::vector<std::string> known = {"DIDx", "Stream"};
  for (const FusionParameter &parameter : fusion_.parameters())
    known.push_back(parameter.name);
  cursor_.error(name.location) << "unknown parameter '" << name.text << "'"
                               << didYouMean(name.text, known);
  return nullptr;
}

/// Makes a tensor visible under its name.
bool FusionParser::define(const Token &name, FusionTensor *tensor) {
  auto [entry, isNew] = tensors_.try_emplace(name.name().str(), Entry{tensor, name.location});
  if (isNew)
    return true;
  cursor_.error(name.location).note(entry->second.location, "first defined here")
      << "redefinition of '" << name.text << "'";
  return true; // the statement itself was parsed successfully
}

} // namespace

std::unique_ptr<Fusion> parseFusion(TokenCursor &cursor) {
  Location location = cursor.take().location;
  const Token *name = cursor.expect(TokenKind::Symbol);
  auto fusion = std::make_unique<Fusion>(name ? name->name().str() : "", location);
  FusionParser(cursor, *fusion, /*isHeaderBroken=*/!name).run();
  return name ? std::move(fusion) : nullptr;
}

} // namespace braid
