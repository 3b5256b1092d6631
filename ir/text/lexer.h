//===- ir/text/lexer.h - splits a text into tokens --------------------------------------------===//
//
// Accepts arbitrary bytes, and reports and skips invalid characters. The token list always ends
// with `End`. Private to ir/.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/diagnostics.h"

#include <vector>

namespace braid {

enum class TokenKind : uint8_t {
  End,
  Word,      ///< `fusion`, `rank`, `M`; includes keywords
  ValueName, ///< `%A`
  Symbol,    ///< `@ag_matmul`
  Integer,
  Punctuation, ///< `{`, `..`, `->`, `<=`
};

/// Returns the name of a token kind for messages, such as "an integer".
llvm::StringRef describe(TokenKind kind);

struct Token {
  TokenKind kind = TokenKind::End;
  bool startsLine = false; ///< first token on its line; the parser resumes there after an error
  llvm::StringRef text;    ///< as written, including the sigil; refers to text in the Diagnostics
  Location location;
  uint64_t magnitude = 0; ///< value of an integer; up to 2^63, so that -2^63 can be written

  /// Returns the name of a value or symbol, without the sigil.
  llvm::StringRef name() const { return text.drop_front(1); }
};

/// Splits the text in `diags` into tokens.
std::vector<Token> tokenize(Diagnostics &diags);

/// True if `text` is a valid name: a letter or `_`, followed by letters, digits and `_`.
bool isIdentifier(llvm::StringRef text);
/// True for words reserved by the syntax of expressions or axes.
bool isReserved(llvm::StringRef word);

} // namespace braid
