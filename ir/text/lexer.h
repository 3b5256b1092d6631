//===- ir/text/lexer.h - divides a text into tokens -------------------------------------------===//
//
// Total: any bytes yield a list that ends with `End`. Characters that no language construct can
// contain are reported and omitted, so that the parser never sees them. Private to ir/.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/diagnostics.h"

#include <vector>

namespace braid {

enum class TokenKind : uint8_t {
  End,
  Word,      ///< `fusion`, `rank`, `M`: also keywords
  ValueName, ///< `%A`
  Symbol,    ///< `@ag_matmul`
  Integer,
  LeftParen,
  RightParen,
  LeftBracket,
  RightBracket,
  LeftBrace,
  RightBrace,
  Comma,
  Colon,
  Assign,
  Range, ///< `..`
  Arrow, ///< `->`
  Plus,
  Minus,
  Star,
  Slash,
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
};

/// Returns the name for messages: "'{'", "an integer".
std::string describe(TokenKind kind);

struct Token {
  TokenKind kind = TokenKind::End;
  bool startsLine =
      false;            ///< the first token of its line, where the parser continues after an error
  llvm::StringRef text; ///< as written, sigil included; lives as long as the Diagnostics
  Location location;
  uint64_t magnitude = 0; ///< value of an integer; at most 2^63, so that INT64_MIN can be written

  /// Returns the name of a value or symbol without its sigil.
  llvm::StringRef name() const { return text.drop_front(1); }
};

/// Divides the text that `diags` holds into tokens.
std::vector<Token> tokenize(Diagnostics &diags);

/// True if `text` can be a name: a letter or `_`, then letters, digits and `_`.
bool isIdentifier(llvm::StringRef text);
/// True for words with a meaning inside an expression or an axis.
bool isReserved(llvm::StringRef word);

} // namespace braid
