//===- ir/text/lexer.h - a text as a list of tokens -------------------------------------------===//
//
// Total: any bytes give a list that ends with `End`. What no language construct can hold is
// reported and left out of the list, so that the parser never sees it. Private to ir/.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/diagnostics.h"

#include <vector>

namespace braid {

enum class TokenKind : uint8_t {
  End,
  Word,      ///< `fusion`, `rank`, `M`: keywords are words in their place
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

/// As messages show it: "'{'", "an integer".
std::string describe(TokenKind kind);

struct Token {
  TokenKind kind = TokenKind::End;
  bool startsLine =
      false;            ///< the first token of its line; where the parser picks up after an error
  llvm::StringRef text; ///< as written, sigil included; lives as long as the Diagnostics
  Location location;
  uint64_t magnitude = 0; ///< an integer's; at most 2^63, so that INT64_MIN can be written

  /// A value's or symbol's name without its sigil.
  llvm::StringRef name() const { return text.drop_front(1); }
};

/// Reads the text that `diags` holds.
std::vector<Token> tokenize(Diagnostics &diags);

/// True for what can be a name in the text: a letter or `_`, then letters, digits and `_`.
bool isIdentifier(llvm::StringRef text);
/// True for the words that mean something inside an expression or an axis.
bool isReserved(llvm::StringRef word);

} // namespace braid
