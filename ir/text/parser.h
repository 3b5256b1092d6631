//===- ir/text/parser.h - code shared by both parsers -----------------------------------------===//
//
// Recursive-descent parsers; the comment on a method shows its grammar production. A method that
// returns false, null or std::nullopt has reported an error. The statement loop then skips to the
// next line and continues, so that all errors in a text are found. Private to ir/.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/module.h"
#include "ir/text/lexer.h"

#include <map>

namespace braid {

/// Maximum nesting of blocks, parentheses and unary minus. Walks over a program recurse up to this
/// depth; together with kMaxOperators, this limits a walk's stack usage to 128 KiB.
inline constexpr int kMaxNesting = 64;
/// Maximum number of operators in one scalar. A chain of n operators is a tree of depth n.
inline constexpr int kMaxOperators = 200;

/// A position in the token list. Moves to the end once `diags` drops further errors.
class TokenCursor {
public:
  TokenCursor(std::vector<Token> tokens, Diagnostics &diags)
      : tokens_(std::move(tokens)), diags_(diags) {}

  Diagnostics &diags() { return diags_; }
  size_t position() const { return at_; }
  const Token &peek() const { return tokens_[at_]; }
  /// Returns the current token, and advances unless it is the end.
  const Token &take();

  bool at(TokenKind kind) const { return peek().kind == kind; }
  /// Returns true if the current token is the word or the punctuation `text`.
  bool at(llvm::StringRef text) const { return peek().text == text; }
  /// True if a line starts here with `fusion` or `program`, which are valid only at the top level.
  bool atTopLevel() const { return peek().startsLine && (at("fusion") || at("program")); }
  bool accept(llvm::StringRef text);

  Diagnostics::InFlight error(Location location);
  /// Reports "expected WHAT, got 'TOKEN'" at the current token.
  Diagnostics::InFlight expected(llvm::StringRef what);
  /// Takes the expected token, or reports that `what` was expected. `what` describes the token by
  /// default.
  const Token *expect(TokenKind kind, llvm::StringRef what = "");
  bool expect(llvm::StringRef text, llvm::StringRef what = "");
  /// Expects the closing brace of a body whose opening brace is at `open`.
  bool expectClosingBrace(Location open);

  /// Skips to the next `{` in this fusion or program. Returns false if there is none.
  bool skipToBrace();
  /// Skips from a `{` to just past the matching `}`, without parsing the tokens in between.
  void skipBraces();

private:
  std::vector<Token> tokens_;
  Diagnostics &diags_;
  size_t at_ = 0;
};

/// Returns "'TOKEN'" or "end of file".
std::string describe(const Token &token);

/// Returns the keys of a map, as candidates for suggestions.
template <class Map> std::vector<std::string> namesOf(const Map &map) {
  std::vector<std::string> names;
  for (const auto &entry : map)
    names.push_back(entry.first);
  return names;
}

/// Parses scalars and sequences of statements; after an error, continues on the next line. Derived
/// classes resolve the names and parse the statements of their language.
class StatementParser {
public:
  StatementParser(TokenCursor &cursor, ScalarContext &scalars)
      : cursor_(cursor), scalars_(scalars) {}
  virtual ~StatementParser() = default;

protected:
  const Scalar *parseScalar();
  /// Returns the leaf for a word or a value name, or reports an error and returns null.
  virtual const Scalar *resolve(const Token &name) = 0;
  /// Returns the folded expression. Reports overflow and division by zero in constant expressions
  /// at `location`.
  const Scalar *combine(ScalarKind kind, const Scalar *lhs, const Scalar *rhs, Location location);

  /// `%result = keyword ...` or `keyword ...`.
  struct Statement {
    const Token *result = nullptr;
    const Token *keyword = nullptr;
    Location location() const { return (result ? result : keyword)->location; }
  };

  /// Parses all statements before the closing brace.
  void parseStatements();
  bool parseStatement();
  /// Skips to the next line or to the closing brace. The statement began at token `start`.
  void recover(size_t start);
  void reportUnknown(const Token &name, llvm::StringRef what,
                     const std::vector<std::string> &known);

  /// Parses the rest of a statement, starting at its keyword.
  virtual bool parseOperation(const Statement &statement) = 0;
  /// In a malformed statement, skips from a `{` past the matching `}`.
  virtual void skipBlock() = 0;
  /// Suppresses errors about later uses of a name whose definition had an error.
  virtual void poison(const Token &name) = 0;

  TokenCursor &cursor_;
  ScalarContext &scalars_;

private:
  using Level = const Scalar *(StatementParser::*)();
  const Scalar *parseChain(llvm::ArrayRef<ScalarKind> operators, Level operand);
  const Scalar *parseXor();
  const Scalar *parseSum();
  const Scalar *parseProduct();
  const Scalar *parseUnary();
  const Scalar *parsePrimary();
  const Scalar *parseParenthesised();
  const Scalar *parseCall(ScalarKind kind);
  const Scalar *parseNegated();
  const Scalar *parseConstant();
  /// Report an error and return false if a limit is exceeded.
  bool countNesting(Location location);
  bool countOperator(Location location);

  int nesting_ = 0;
  int operators_ = 0;
};

/// Parses an element type at the current token.
std::optional<DType> parseDType(TokenCursor &cursor);
/// Parses an integer, with an optional minus sign if `isSigned`.
std::optional<int64_t> parseInteger(TokenCursor &cursor, bool isSigned);
/// Parses '[' '0' '..', the start of a mesh.
bool parseMeshStart(TokenCursor &cursor);

/// Parse a definition, starting at the word `fusion` or `program`. If there are errors, return
/// everything that could be parsed, or null if the name is missing.
std::unique_ptr<Fusion> parseFusion(TokenCursor &cursor);
std::unique_ptr<Program> parseProgram(TokenCursor &cursor);

} // namespace braid
