//===- ir/text/parser.cpp - parses files; the token cursor ------------------------------------===//

#include "ir/text/parser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace braid {

//===----------------------------------------------------------------------------------------===//
// TokenCursor
//===----------------------------------------------------------------------------------------===//

std::string describe(const Token &token) {
  if (token.kind == TokenKind::End)
    return describe(TokenKind::End).str();
  constexpr size_t kShown = 40;
  if (token.text.size() <= kShown)
    return "'" + token.text.str() + "'";
  return "'" + token.text.take_front(kShown).str() + "...'";
}

const Token &TokenCursor::take() {
  const Token &token = peek();
  if (token.kind != TokenKind::End)
    ++at_;
  return token;
}

bool TokenCursor::accept(llvm::StringRef text) {
  if (!at(text))
    return false;
  take();
  return true;
}

Diagnostics::InFlight TokenCursor::error(Location location) {
  Diagnostics::InFlight message = diags_.error(location);
  if (diags_.isFull())
    at_ = tokens_.size() - 1;
  return message;
}

Diagnostics::InFlight TokenCursor::expected(llvm::StringRef what) {
  std::string got = describe(peek());
  Diagnostics::InFlight message = error(peek().location);
  message << "expected " << what << ", got " << got;
  return message;
}

const Token *TokenCursor::expect(TokenKind kind, llvm::StringRef what) {
  if (at(kind))
    return &take();
  expected(what.empty() ? describe(kind) : what);
  return nullptr;
}

bool TokenCursor::expect(llvm::StringRef text, llvm::StringRef what) {
  return accept(text) || expected(what.empty() ? "'" + text.str() + "'" : what.str());
}

bool TokenCursor::expectClosingBrace(Location open) {
  if (accept("}"))
    return true;
  const auto all = diags_.all();
  if (at(TokenKind::End) && !all.empty() && all.back().location == peek().location)
    return false; // an error at the end of the file has already been reported
  return expected("'}'").note(open, "to close the block opened here");
}

bool TokenCursor::skipToBrace() {
  while (!at("{") && !at(TokenKind::End) && !atTopLevel())
    take();
  return at("{");
}

void TokenCursor::skipBraces() {
  size_t open = 0;
  do {
    if (at("{"))
      ++open;
    else if (at("}"))
      --open;
    take();
  } while (open != 0 && !at(TokenKind::End) && !atTopLevel());
}

//===----------------------------------------------------------------------------------------===//
// Parsing shared by both languages
//===----------------------------------------------------------------------------------------===//

void StatementParser::parseStatements() {
  while (!cursor_.at("}") && !cursor_.at(TokenKind::End) && !cursor_.atTopLevel()) {
    size_t start = cursor_.position();
    if (!parseStatement())
      recover(start);
  }
}

bool StatementParser::parseStatement() {
  Statement statement;
  if (cursor_.at(TokenKind::ValueName)) {
    statement.result = &cursor_.take();
    if (!cursor_.expect("=")) {
      poison(*statement.result);
      return false;
    }
  }
  statement.keyword = &cursor_.peek();
  const bool isFine = parseOperation(statement);
  if (!isFine && statement.result)
    poison(*statement.result);
  return isFine;
}

void StatementParser::recover(size_t start) {
  if (cursor_.position() == start && !cursor_.at("}") && !cursor_.at("{"))
    cursor_.take();
  while (!cursor_.at(TokenKind::End) && !cursor_.at("}") &&
         !(cursor_.peek().startsLine && cursor_.position() != start))
    if (cursor_.at("{"))
      skipBlock();
    else
      cursor_.take();
}

void StatementParser::reportUnknown(const Token &name, llvm::StringRef what,
                                    const std::vector<std::string> &known) {
  cursor_.error(name.location) << "unknown " << what << " '" << name.text << "'"
                               << didYouMean(name.name(), known, "%");
}

/// Returns Braid's name for an element type that other languages call `name`, or "".
static llvm::StringRef dtypeElsewhere(llvm::StringRef name) {
  return llvm::StringSwitch<llvm::StringRef>(name)
      .Cases("bfloat16", "bfloat", "bf16")
      .Cases("float16", "fp16", "half", "f16")
      .Cases("float32", "fp32", "float", "f32")
      .Cases("float64", "fp64", "double", "f64")
      .Default("");
}

std::optional<DType> parseDType(TokenCursor &cursor) {
  std::optional<DType> dtype;
  if (cursor.at(TokenKind::Word))
    dtype = dtypeFromName(cursor.peek().text);
  if (dtype) {
    cursor.take();
    return dtype;
  }
  const llvm::StringRef meant = dtypeElsewhere(cursor.peek().text);
  cursor.expected("an element type (bf16, f16, f32 or f64)")
      << (meant.empty() ? "" : " (did you mean '" + meant.str() + "'?)");
  return std::nullopt;
}

std::optional<int64_t> parseInteger(TokenCursor &cursor, bool isSigned) {
  bool isNegative = isSigned && cursor.accept("-");
  const Token *token = cursor.expect(TokenKind::Integer);
  if (!token)
    return std::nullopt;
  if (isNegative)
    return static_cast<int64_t>(-token->magnitude);
  if (token->magnitude <= uint64_t(INT64_MAX))
    return static_cast<int64_t>(token->magnitude);
  cursor.error(token->location) << "the integer " << token->text << " does not fit in 64 bits";
  return std::nullopt;
}

bool parseMeshStart(TokenCursor &cursor) {
  if (!cursor.expect("["))
    return false;
  if (!cursor.at(TokenKind::Integer) || cursor.peek().text != "0")
    return cursor.expected("'0' (every mesh starts at 0)");
  cursor.take();
  return cursor.expect("..");
}

//===----------------------------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------------------------===//

/// Adds `item` to `list`, or reports an error if its name is already taken.
template <class T>
static void add(std::vector<std::unique_ptr<T>> &list, std::unique_ptr<T> item,
                Diagnostics &diags) {
  if (!item)
    return;
  auto sameName = [&](const auto &other) { return other->name() == item->name(); };
  auto earlier = llvm::find_if(list, sameName);
  if (earlier == list.end())
    return list.push_back(std::move(item));
  diags.error(item->location()).note((*earlier)->location(), "first defined here")
      << "redefinition of '@" << item->name() << "'";
}

/// file := (fusion | program)*
Module parse(Diagnostics &diags) {
  Module module;
  TokenCursor cursor(tokenize(diags), diags);
  if (cursor.at(TokenKind::End) && !diags.hasErrors())
    cursor.expected("'fusion' or 'program'");
  while (!cursor.at(TokenKind::End)) {
    if (cursor.at("fusion")) {
      add(module.fusions, parseFusion(cursor), diags);
    } else if (cursor.at("program")) {
      add(module.programs, parseProgram(cursor), diags);
    } else {
      cursor.expected("'fusion' or 'program'");
      do {
        cursor.take();
      } while (!cursor.at(TokenKind::End) && !cursor.atTopLevel());
    }
  }
  return module;
}

} // namespace braid
