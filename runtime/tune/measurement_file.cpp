//===- runtime/tune/measurement_file.cpp - what was measured on a machine, as a file's text ---===//

#include "runtime/tune/measurement_file.h"

#include "ir/failure.h"

#include "llvm/Support/xxhash.h"

#include <fmt/format.h>

namespace braid {
std::string escaped(llvm::StringRef text) {
  std::string result;
  for (char c : text) {
    if (c == '\\')
      result += "\\\\";
    else if (c == '\t')
      result += "\\t";
    else if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result;
}

std::string unescaped(llvm::StringRef text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      c = text[++i];
      c = c == 't' ? '\t' : c == 'n' ? '\n' : c;
    }
    result += c;
  }
  return result;
}

namespace {

constexpr llvm::StringLiteral kTitle = "braid measurements ";
constexpr llvm::StringLiteral kFileVersion = "1";

/// Takes the first line off `text`, which ends with a line end.
llvm::StringRef takeLine(llvm::StringRef &text) {
  auto [line, rest] = text.split('\n');
  text = rest;
  return line;
}

/// The lines but for the last one, which has to be right.
Result<llvm::StringRef> withoutEnd(llvm::StringRef text) {
  llvm::StringRef whole = text;
  if (!whole.consume_back("\n"))
    return badInput("it is cut short");
  const size_t size = whole.rfind('\n') + 1; // npos + 1 is 0
  if (!whole.drop_front(size).consume_front("end "))
    return badInput("it is cut short");
  if (text.drop_front(size) != MeasurementFile::endOf(text.take_front(size)))
    return badInput("it is damaged: its checksum differs");
  return text.take_front(size);
}

} // namespace

std::string MeasurementFile::endOf(llvm::StringRef text) {
  return fmt::format("end {:016x}\n", llvm::xxHash64(text));
}

std::string MeasurementFile::encode() const {
  std::string text = kTitle.str() + kFileVersion.str() + ": " + escaped(machine) + "\n";
  for (const auto &[key, value] : entries)
    text += escaped(key) + "\t" + escaped(value) + "\n";
  return text + endOf(text);
}

Result<MeasurementFile> MeasurementFile::decode(llvm::StringRef text) {
  llvm::StringRef rest = text;
  if (!rest.consume_front(kTitle))
    return badInput("it holds no measurements");
  auto [version, machine] = takeLine(rest).split(": ");
  if (version != kFileVersion)
    return badInput("another version of Braid wrote it");
  llvm::StringRef lines = BRAID_TRY(withoutEnd(text));
  takeLine(lines);
  MeasurementFile file{unescaped(machine), {}};
  while (!lines.empty()) {
    auto [key, value] = takeLine(lines).split('\t');
    file.entries[unescaped(key)] = unescaped(value);
  }
  if (file.encode() != text)
    return badInput("it is malformed");
  return file;
}

} // namespace braid
