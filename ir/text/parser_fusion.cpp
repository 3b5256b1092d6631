//===- ir/text/parser_fusion.cpp - parses fusions ---------------------------------------------===//

#include "ir/text/parser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

class FusionParser : public StatementParser {
public:
  FusionParser(TokenCursor &cursor, Fusion &fusion, bool isHeaderBroken)
      : StatementParser(cursor, fusion.scalars()), fusion_(fusion),
        isHeaderBroken_(isHeaderBroken) {}
  void run();

private:
  struct Entry {
    FusionTensor *tensor; ///< null if the definition was invalid
    Location location;
  };

  bool parseParameters();
  bool parseParameter();
  bool parseMesh();
  bool parseOperation(const Statement &statement) override;
  bool parseKeyword(const Statement &statement, FusionNode &node);
  bool parseOperands(FusionNode &node);
  void skipBlock() override { cursor_.skipBraces(); } // an axis's braces

  bool parseType(FusionType &type);
  std::optional<Axis> parseAxis();
  FusionTensor *parseTensor();
  const Scalar *resolve(const Token &name) override;
  bool define(const Token &name, FusionTensor *tensor);
  /// Suppresses errors about later uses of a tensor that could not be parsed.
  void poison(const Token &name) override {
    tensors_.try_emplace(name.name().str(), Entry{nullptr, name.location});
  }

  Fusion &fusion_;
  std::map<std::string, Entry> tensors_;
  bool isHeaderBroken_; ///< if true, unknown parameters are not reported
};

/// fusion := 'fusion' '@'id ['(' [param (',' param)*] ')'] '{' mesh fstmt* '}'
void FusionParser::run() {
  isHeaderBroken_ = isHeaderBroken_ || !parseParameters();
  if (isHeaderBroken_)
    cursor_.skipToBrace();
  Location open = cursor_.peek().location;
  if (!cursor_.accept("{")) {
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
  if (!cursor_.accept("(") || cursor_.accept(")"))
    return true;
  do {
    if (!parseParameter())
      return false;
  } while (cursor_.accept(","));
  return cursor_.expect(")", "',' or ')'");
}

/// param := id '=' ['-'] integer
bool FusionParser::parseParameter() {
  const Token *name = cursor_.expect(TokenKind::Word, "a parameter");
  if (!name || !cursor_.expect("="))
    return false;
  std::optional<int64_t> value = parseInteger(cursor_, /*isSigned=*/true);
  if (!value)
    return false;
  if (isReserved(name->text))
    return cursor_.error(name->location)
           << "expected a parameter name, got '" << name->text << "', which is a keyword";
  const FusionParameter *earlier = fusion_.findParameter(name->text);
  if (!earlier) {
    fusion_.addParameter(name->text, *value, name->location);
    return true;
  }
  cursor_.error(name->location).note(earlier->location, "first defined here")
      << "redefinition of parameter '" << name->text << "'";
  return true;
}

/// mesh := 'mesh' '[' '0' '..' scalar ')' ['of' scalar]
bool FusionParser::parseMesh() {
  Location location = cursor_.peek().location;
  if (!cursor_.expect("mesh") || !parseMeshStart(cursor_))
    return false;
  const Scalar *size = parseScalar();
  if (!size || !cursor_.expect(")"))
    return false;
  const Scalar *hostSize = nullptr;
  if (cursor_.accept("of") && !(hostSize = parseScalar()))
    return false;
  fusion_.setMesh(size, location, hostSize);
  return true;
}

/// fstmt := '%'id '=' 'input' ftype
///        | '%'id '=' keyword value (',' value)* ['partial' dtype] ':' ftype
///        | 'output' value (',' value)*
bool FusionParser::parseOperation(const Statement &statement) {
  FusionNode node{{}, statement.location()};
  FusionType type;
  if (!parseKeyword(statement, node) || !parseOperands(node))
    return false;
  if (isGemm(node) && cursor_.accept("partial") && !(node.partial = parseDType(cursor_)))
    return false;
  if (node.kind == FusionOpKind::Output) {
    fusion_.add(std::move(node));
    return true;
  }
  if (node.kind != FusionOpKind::Input && !cursor_.expect(":"))
    return false;
  return parseType(type) &&
         define(*statement.result,
                fusion_.add(std::move(node), statement.result->name(), std::move(type)));
}

/// Parses the keyword, which determines the node's kind and whether the node defines a tensor.
bool FusionParser::parseKeyword(const Statement &statement, FusionNode &node) {
  static constexpr std::pair<llvm::StringLiteral, FusionOpKind> kKinds[] = {
#define BRAID_FUSION_OP(Kind, keyword, summary) {keyword, FusionOpKind::Kind},
#include "ir/fusion_kinds.def"
      {"linear", FusionOpKind::Matmul},
  };
  const llvm::StringRef word = statement.keyword->text;
  const auto function = pointwiseFromKeyword(word);
  const llvm::StringRef kind = function ? keyword(FusionOpKind::Pointwise) : word;
  const auto *found = llvm::find_if(kKinds, [&](const auto &each) { return each.first == kind; });
  if (found == std::end(kKinds)) {
    std::vector<std::string> keywords;
    for (const auto &known : kKinds)
      if (known.second != FusionOpKind::Pointwise)
        keywords.push_back(known.first.str());
    llvm::append_range(keywords, pointwiseKeywords());
    const std::string near = didYouMean(word, keywords);
    return cursor_.expected("an operation")
           << (near.empty() ? "; the operations are " + llvm::join(keywords, ", ") : near);
  }
  node.kind = found->second;
  if (node.kind == FusionOpKind::Output && statement.result)
    return cursor_.error(statement.result->location)
           << "'output' does not define a tensor; expected 'output %x'";
  if (node.kind != FusionOpKind::Output && !statement.result)
    return cursor_.error(statement.keyword->location)
           << "'" << word << "' defines a tensor; expected '%x = " << word << " ...'";
  cursor_.take();
  if (node.kind == FusionOpKind::Pointwise && !function)
    return cursor_.error(statement.keyword->location)
           << "expected the name of a function (" << llvm::join(pointwiseKeywords(), ", ")
           << "), got '" << word << "'";
  node.function = function.value_or(node.function);
  node.transposeB = word == "linear";
  return true;
}

/// Parses the operands. The node's kind determines how many are allowed.
bool FusionParser::parseOperands(FusionNode &node) {
  size_t least = 1, most = 1;
  if (node.kind == FusionOpKind::Input)
    return true;
  if (node.kind == FusionOpKind::Pointwise)
    least = most = operandCount(node.function);
  else if (isGemm(node))
    least = 2, most = SIZE_MAX;
  else if (node.kind == FusionOpKind::Output)
    most = SIZE_MAX;
  while (node.operands.size() < most) {
    const size_t count = node.operands.size();
    if (count >= least && !cursor_.accept(","))
      return true;
    if (count > 0 && count < least && !cursor_.expect(","))
      return false;
    node.operands.push_back(parseTensor());
    if (!node.operands.back())
      return false;
  }
  return true;
}

/// ftype := dtype '[' axis (',' axis)* ']'
bool FusionParser::parseType(FusionType &type) {
  std::optional<DType> dtype = parseDType(cursor_);
  if (!dtype || !cursor_.expect("["))
    return false;
  type.dtype = *dtype;
  do {
    std::optional<Axis> axis = parseAxis();
    if (!axis)
      return false;
    type.axes.push_back(*axis);
  } while (cursor_.accept(","));
  return cursor_.expect("]", "',' or ']'");
}

/// axis := scalar | 'DIDx' '{' scalar '}' | 'Stream' '{' scalar '}'
std::optional<Axis> FusionParser::parseAxis() {
  Axis axis;
  if (cursor_.accept("DIDx"))
    axis.kind = AxisKind::DIDx;
  else if (cursor_.accept("Stream"))
    axis.kind = AxisKind::Stream;
  bool hasBraces = axis.kind != AxisKind::Plain;
  if (hasBraces && !cursor_.expect("{"))
    return std::nullopt;
  axis.extent = parseScalar();
  if (axis.extent && (!hasBraces || cursor_.expect("}")))
    return axis;
  // Skip the closing brace of the axis, so that it does not end the fusion.
  while (hasBraces && !cursor_.peek().startsLine && !cursor_.at(TokenKind::End) &&
         !cursor_.accept("}"))
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
