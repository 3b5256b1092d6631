//===- api/pairs/measurement.cpp - what ranks say while they measure, line by line ------------===//

#include "api/pairs/measurement.h"

#include "ir/failure.h"
#include "ir/printable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

namespace braid {
namespace {

using Kind = Measurement::Kind;

/// A field of a line, by a letter: s source, d destination, p path, b bytes, v value, r round,
/// o offset, e expected byte, g byte that came, w work, t the text to the end of the line.
struct Form {
  Kind kind;
  const char *name;
  const char *fields;
};
constexpr Form kForms[] = {
    {Kind::Device, "device", "st"},          {Kind::Begin, "begin", "sdpb"},
    {Kind::Bandwidth, "bandwidth", "sdpbv"}, {Kind::Latency, "latency", "sdpbv"},
    {Kind::Wrong, "wrong", "sdpbroeg"},      {Kind::Unavailable, "unavailable", "sdpt"},
    {Kind::Together, "together", "sdpbvw"},
};

std::string cleaned(llvm::StringRef text) {
  std::string clean = text.take_front(kMostMeasurementText).str();
  for (char &c : clean)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      c = ' ';
  return clean;
}

std::string encodeField(const Measurement &line, char field) {
  switch (field) {
  case 's':
    return std::to_string(line.source);
  case 'd':
    return std::to_string(line.destination);
  case 'p':
    return name(line.path).str();
  case 'b':
    return std::to_string(line.bytes);
  case 'v':
    return fmt::format("{}", line.value);
  case 'r':
    return std::to_string(line.wrong.round);
  case 'o':
    return std::to_string(line.wrong.offset);
  case 'e':
    return std::to_string(line.wrong.expected);
  case 'g':
    return std::to_string(line.wrong.got);
  case 'w':
    return std::to_string(line.work);
  default:
    return cleaned(line.text);
  }
}

/// Digits only, so that there is one way to write a number.
template <class Integer> bool takeInteger(llvm::StringRef word, Integer &number) {
  const bool isPlain = !word.empty() && llvm::all_of(word, llvm::isDigit) &&
                       (word.size() == 1 || word.front() != '0');
  return isPlain && !word.getAsInteger(10, number);
}

bool takePath(llvm::StringRef word, Path &path) {
  const std::optional<Path> known = pathFromName(word);
  path = known.value_or(path);
  return known.has_value();
}

bool takeValue(llvm::StringRef word, double &value) {
  return !word.getAsDouble(value) && std::isfinite(value) && value >= 0;
}

bool takeField(Measurement &line, char field, llvm::StringRef word) {
  switch (field) {
  case 's':
    return takeInteger(word, line.source);
  case 'd':
    return takeInteger(word, line.destination);
  case 'p':
    return takePath(word, line.path);
  case 'b':
    return takeInteger(word, line.bytes);
  case 'v':
    return takeValue(word, line.value);
  case 'r':
    return takeInteger(word, line.wrong.round);
  case 'o':
    return takeInteger(word, line.wrong.offset);
  case 'e':
    return takeInteger(word, line.wrong.expected);
  case 'g':
    return takeInteger(word, line.wrong.got);
  case 'w':
    return takeInteger(word, line.work);
  default:
    line.text = word.str();
    return line.text == cleaned(word);
  }
}

} // namespace

std::string Measurement::encode() const {
  const Form &form = kForms[static_cast<size_t>(kind)];
  std::string line = form.name;
  for (const char *field = form.fields; *field; ++field)
    line += " " + encodeField(*this, *field);
  return line + "\n";
}

Result<Measurement> Measurement::decode(llvm::StringRef line) {
  auto malformed = [&] {
    return badInput("expected a measurement, got '{}'", printable(line.str(), 80));
  };
  llvm::StringRef word, rest;
  std::tie(word, rest) = line.split(' ');
  const Form *form = llvm::find_if(kForms, [&](const Form &each) { return word == each.name; });
  if (form == std::end(kForms))
    return malformed();
  Measurement measurement;
  measurement.kind = form->kind;
  for (const char *field = form->fields; *field; ++field) {
    if (*field != 't')
      std::tie(word, rest) = rest.split(' ');
    else
      word = std::exchange(rest, "");
    if (!takeField(measurement, *field, word))
      return malformed();
  }
  measurement.wrong.bytes = measurement.bytes;
  return rest.empty() ? Result<Measurement>(std::move(measurement)) : malformed();
}

} // namespace braid
