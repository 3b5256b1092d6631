//===- runtime/tune/measurement_file.cpp - the text of a file of measurements -----------------===//

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

/// Includes the version of the format.
constexpr llvm::StringLiteral kTitle = "braid measurements 1: ";

} // namespace

std::string MeasurementFile::encode() const {
  std::string text = kTitle.str() + escaped(machine) + "\n";
  for (const auto &[key, value] : entries)
    text += escaped(key) + "\t" + escaped(value) + "\n";
  return text + fmt::format("end {:016x}\n", llvm::xxHash64(text));
}

Result<MeasurementFile> MeasurementFile::decode(llvm::StringRef text) {
  llvm::StringRef lines = text;
  if (!lines.consume_front(kTitle))
    return badInput("this version of Braid has not written it");
  auto [machine, rest] = lines.split('\n');
  MeasurementFile file{unescaped(machine), {}};
  while (!rest.empty()) {
    const auto [line, others] = rest.split('\n');
    const auto [key, value] = line.split('\t');
    if (key.size() < line.size()) // not the last line
      file.entries[unescaped(key)] = unescaped(value);
    rest = others;
  }
  if (file.encode() != text)
    return badInput("it is damaged");
  return file;
}

} // namespace braid
