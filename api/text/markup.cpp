//===- api/text/markup.cpp - text inside of HTML and SVG --------------------------------------===//

#include "api/text/markup.h"

#include "llvm/Support/ConvertUTF.h"

namespace braid {

std::string markupText(const std::string &text) {
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data());
  const bool isUtf8 = llvm::isLegalUTF8String(&begin, begin + text.size());
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    default:
      const bool isControl = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
      out += isControl || (byte >= 0x80 && !isUtf8) ? '?' : c;
    }
  }
  return out;
}

} // namespace braid
