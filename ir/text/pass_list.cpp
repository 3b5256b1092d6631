//===- ir/text/pass_list.cpp - the text of `--passes` -----------------------------------------===//

#include "ir/module.h"

#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

/// Names hold `-`, so the list has a reader of its own.
class PassListParser {
public:
  explicit PassListParser(Diagnostics &diags) : diags_(diags), text_(diags.text()) {}
  std::vector<PassSpec> run();

private:
  bool parsePass(PassSpec &pass);
  bool parseOption(PassSpec::Option &option);
  bool expected(llvm::StringRef what);
  llvm::StringRef takeWord();
  bool accept(char c);
  bool isAtEnd();
  void skipBlanks();
  Location here() const;

  Diagnostics &diags_;
  llvm::StringRef text_;
  size_t at_ = 0;
};

/// list := [pass (',' pass)*]
std::vector<PassSpec> PassListParser::run() {
  std::vector<PassSpec> passes;
  if (isAtEnd())
    return passes;
  do {
    passes.emplace_back();
    if (!parsePass(passes.back()))
      return passes;
  } while (accept(','));
  if (!isAtEnd())
    expected("',' or '{'");
  return passes;
}

/// pass := name ['{' option* '}']
bool PassListParser::parsePass(PassSpec &pass) {
  skipBlanks();
  pass.location = here();
  pass.name = takeWord().str();
  if (pass.name.empty())
    return expected("the name of a pass");
  if (!accept('{'))
    return true;
  while (!accept('}')) {
    pass.options.emplace_back();
    if (!parseOption(pass.options.back()))
      return false;
  }
  return true;
}

/// option := name '=' value
bool PassListParser::parseOption(PassSpec::Option &option) {
  skipBlanks();
  option.location = here();
  option.name = takeWord().str();
  if (option.name.empty())
    return expected("an option or '}'");
  if (!accept('='))
    return expected("'='");
  option.value = takeWord().str();
  return !option.value.empty() || expected("a value");
}

bool PassListParser::expected(llvm::StringRef what) {
  std::string got = "the end of the list";
  if (!isAtEnd())
    got = llvm::isPrint(text_[at_]) ? "'" + text_.substr(at_, 1).str() + "'" : "a strange byte";
  return diags_.error(here()) << "expected " << what << ", got " << got;
}

/// A run of letters, digits, `-`, `_` and `.`.
llvm::StringRef PassListParser::takeWord() {
  skipBlanks();
  llvm::StringRef word = text_.substr(at_).take_while(
      [](char c) { return llvm::isAlnum(c) || c == '-' || c == '_' || c == '.'; });
  at_ += word.size();
  return word;
}

bool PassListParser::accept(char c) {
  if (isAtEnd() || text_[at_] != c)
    return false;
  ++at_;
  return true;
}

bool PassListParser::isAtEnd() {
  skipBlanks();
  return at_ >= text_.size();
}

void PassListParser::skipBlanks() {
  while (at_ < text_.size() && llvm::isSpace(text_[at_]))
    ++at_;
}

Location PassListParser::here() const {
  llvm::StringRef before = text_.take_front(at_);
  size_t lineStart = before.rfind('\n') + 1; // npos + 1 is 0: the first line
  return {static_cast<uint32_t>(before.count('\n') + 1),
          static_cast<uint32_t>(at_ - lineStart + 1)};
}

} // namespace

std::vector<PassSpec> parsePassList(Diagnostics &diags) { return PassListParser(diags).run(); }

} // namespace braid
