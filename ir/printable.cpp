//===- ir/printable.cpp - makes untrusted text safe for a terminal ----------------------------===//

#include "ir/printable.h"

#include "api/status.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

namespace braid {
namespace {

/// Returns true for control characters, and for characters that reorder or hide their neighbors.
bool isInvisible(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0xad || code == 0x61c ||
         (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
         (code >= 0xfff9 && code <= 0xfffb) || (code >= 0xe0000 && code <= 0xe0fff);
}

std::string byteText(uint32_t byte) {
  return {'\\', 'x', llvm::hexdigit(byte >> 4, /*LowerCase=*/true),
          llvm::hexdigit(byte & 15, /*LowerCase=*/true)};
}

/// Escapes unsafe characters, except for the invisible characters in `kept`.
std::string escaped(llvm::StringRef text, size_t most, llvm::StringRef kept) {
  std::string result;
  const auto *at = reinterpret_cast<const llvm::UTF8 *>(text.begin());
  const auto *end = reinterpret_cast<const llvm::UTF8 *>(text.end());
  while (at != end) {
    const llvm::UTF8 *start = at;
    llvm::UTF32 code = 0;
    std::string shown;
    if (llvm::convertUTF8Sequence(&at, end, &code, llvm::strictConversion) != llvm::conversionOK) {
      at = start + 1;
      shown = byteText(*start);
    } else if (isInvisible(code) && !kept.contains(static_cast<char>(*start))) {
      shown =
          code < 0x100 ? byteText(code) : "\\u{" + llvm::utohexstr(code, /*LowerCase=*/true) + "}";
    } else {
      shown.assign(start, at);
    }
    if (result.size() + shown.size() > most)
      return result + "...";
    result += shown;
  }
  return result;
}

bool isPlain(char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t'; }

} // namespace

std::string printable(llvm::StringRef text, size_t most) { return escaped(text, most, ""); }

std::string printableMessage(std::string text) {
  // Most messages need no escaping. They are not copied, because memory may be exhausted.
  if (llvm::all_of(text, isPlain))
    return text;
  return escaped(text, std::string::npos, "\n\t");
}

} // namespace braid
