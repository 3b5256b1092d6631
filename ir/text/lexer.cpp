//===- ir/text/lexer.cpp - splits a text into tokens ------------------------------------------===//

#include "ir/text/lexer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <utility>

namespace braid {
namespace {

bool startsName(char c) { return llvm::isAlpha(c) || c == '_'; }
bool continuesName(char c) { return llvm::isAlnum(c) || c == '_'; }

/// Sorted so that longer symbols precede their prefixes; the first match is then the longest.
constexpr llvm::StringLiteral kPunctuation[] = {"..", "->", "==", "!=", "<=", ">=", "<",
                                                ">",  "(",  ")",  "[",  "]",  "{",  "}",
                                                ",",  ":",  "=",  "+",  "-",  "*",  "/"};

class Lexer {
public:
  explicit Lexer(Diagnostics &diags) : diags_(diags), text_(diags.text()) {}
  std::vector<Token> run();

private:
  Location here() const {
    return {line_, static_cast<uint32_t>(std::min<size_t>(at_ - lineStart_ + 1, UINT32_MAX))};
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  llvm::StringRef rest() const { return text_.substr(at_); }

  void skipBlanks();
  void lexOne();
  void append(TokenKind kind, size_t length);
  size_t nameLength(size_t from) const;
  void lexInteger();
  void lexSigil(TokenKind kind);
  void lexForeignName(TokenKind kind);
  bool lexPunctuation();
  void lexGarbage();

  Diagnostics &diags_;
  llvm::StringRef text_;
  size_t at_ = 0;
  size_t lineStart_ = 0;
  uint32_t line_ = 1;
  bool startsLine_ = true;
  uint32_t garbageLine_ = 0; ///< last line on which invalid bytes were reported
  std::vector<Token> tokens_;
};

std::vector<Token> Lexer::run() {
  if (rest().take_front(3) == "\xEF\xBB\xBF") // skip a byte order mark
    at_ = lineStart_ = 3;
  size_t nul = text_.find('\0');
  if (nul != llvm::StringRef::npos) {
    line_ = static_cast<uint32_t>(text_.take_front(nul).count('\n')) + 1;
    lineStart_ = text_.take_front(nul).rfind('\n') + 1; // npos + 1 is 0, the first line
    at_ = nul;
    diags_.error(here()) << "expected a text file, got a binary file (found the byte 0x00)";
    at_ = text_.size();
  }
  for (skipBlanks(); at_ < text_.size(); skipBlanks())
    lexOne();
  append(TokenKind::End, 0);
  return std::move(tokens_);
}

/// Skips whitespace and comments.
void Lexer::skipBlanks() {
  while (at_ < text_.size()) {
    if (peek() == '\n') {
      lineStart_ = ++at_;
      ++line_;
      startsLine_ = true;
    } else if (peek() == ' ' || peek() == '\t' || peek() == '\r') {
      ++at_;
    } else if (rest().take_front(2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

void Lexer::lexOne() {
  char c = peek();
  if (startsName(c))
    append(TokenKind::Word, nameLength(at_));
  else if (llvm::isDigit(c))
    lexInteger();
  else if (c == '%')
    lexSigil(TokenKind::ValueName);
  else if (c == '@')
    lexSigil(TokenKind::Symbol);
  else if (!lexPunctuation())
    lexGarbage();
}

void Lexer::append(TokenKind kind, size_t length) {
  Token token;
  token.kind = kind;
  token.startsLine = std::exchange(startsLine_, false);
  token.text = text_.substr(at_, length);
  token.location = here();
  tokens_.push_back(token);
  at_ += length;
}

size_t Lexer::nameLength(size_t from) const {
  return text_.substr(from).take_while(continuesName).size();
}

/// Lexes an out-of-range or malformed integer as 0, to avoid follow-on errors.
void Lexer::lexInteger() {
  constexpr uint64_t kLargest = uint64_t(1) << 63;
  Location location = here();
  append(TokenKind::Integer, nameLength(at_));
  Token &token = tokens_.back();
  if (!llvm::all_of(token.text, llvm::isDigit)) {
    diags_.error(location) << "expected an integer, got '" << token.text << "'";
    return;
  }
  uint64_t value = 0;
  if (token.text.getAsInteger(10, value) || value > kLargest)
    diags_.error(location) << "the integer " << token.text << " does not fit in 64 bits";
  else
    token.magnitude = value;
}

void Lexer::lexSigil(TokenKind kind) {
  if (at_ + 1 < text_.size() && startsName(text_[at_ + 1]))
    return append(kind, 1 + nameLength(at_ + 1));
  char sigil = peek();
  if (at_ + 1 < text_.size() && !llvm::isASCII(text_[at_ + 1]))
    return lexForeignName(kind);
  diags_.error(here()) << "expected a name after '" << llvm::StringRef(&sigil, 1) << "'"
                       << (sigil == '%' ? "; the remainder operator is 'mod'" : "");
  ++at_;
}

/// Lexes a name with non-ASCII letters as a single token, to report only one error for the name.
void Lexer::lexForeignName(TokenKind kind) {
  const llvm::StringRef name = rest().drop_front().take_while(
      [](char each) { return continuesName(each) || !llvm::isASCII(each); });
  diags_.error(here()) << "expected a name consisting of ASCII letters, digits and '_' after '"
                       << rest().take_front() << "'";
  append(kind, 1 + name.size());
}

bool Lexer::lexPunctuation() {
  const auto *found = llvm::find_if(kPunctuation, [&](llvm::StringRef symbol) {
    return rest().take_front(symbol.size()) == symbol;
  });
  if (found == std::end(kPunctuation))
    return false;
  append(TokenKind::Punctuation, found->size());
  return true;
}

/// Reports at most one error per line, regardless of the number of invalid bytes. Skips the rest of
/// a line that looks like a comment in another language.
void Lexer::lexGarbage() {
  auto byte = static_cast<unsigned char>(peek());
  if (std::exchange(garbageLine_, line_) != line_) {
    std::string shown;
    llvm::raw_string_ostream os(shown);
    if (llvm::isPrint(peek()))
      os << "character '" << peek() << "'";
    else
      os << "byte " << llvm::format_hex(byte, 4, /*Upper=*/true);
    diags_.error(here()) << "unexpected " << os.str()
                         << (peek() == '#' ? "; comments start with '//'" : "");
  }
  at_ = peek() == '#' ? std::min(text_.find('\n', at_), text_.size()) : at_ + 1;
}

} // namespace

std::vector<Token> tokenize(Diagnostics &diags) { return Lexer(diags).run(); }

bool isIdentifier(llvm::StringRef text) {
  return !text.empty() && startsName(text.front()) && llvm::all_of(text, continuesName);
}

bool isReserved(llvm::StringRef word) {
  static constexpr llvm::StringLiteral kWords[] = {"rank", "mod",  "xor",  "min",
                                                   "max",  "ceil", "DIDx", "Stream"};
  return llvm::is_contained(kWords, word);
}

llvm::StringRef describe(TokenKind kind) {
  static constexpr llvm::StringLiteral kNames[] = {
      "end of file", "a name", "a name like '%x'", "a name like '@f'", "an integer", "punctuation"};
  return kNames[static_cast<size_t>(kind)];
}

} // namespace braid
