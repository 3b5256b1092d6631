//===- api/fusion.cpp - builds the text of a fusion in C++ ------------------------------------===//

#include "api/fusion.h"
#include "ir/type.h"

namespace braid {
namespace {

std::string typeText(DType dtype, std::initializer_list<AxisText> axes) {
  std::string text = name(dtype).str() + "[", separator;
  for (const AxisText &axis : axes) {
    text += separator + axis.text;
    separator = ", ";
  }
  return text + "]";
}

} // namespace

Extent FusionText::parameter(const std::string &name, int64_t value) {
  parameters_ += (parameters_.empty() ? "" : ", ") + name + " = " + std::to_string(value);
  return Extent(name);
}

void FusionText::mesh(const Extent &devices) { body_ += "  mesh [0 .. " + devices.str() + ")\n"; }

void FusionText::input(const std::string &name, DType dtype, std::initializer_list<AxisText> axes) {
  body_ += "  %" + name + " = input " + typeText(dtype, axes) + "\n";
}

void FusionText::define(const std::string &name, const std::string &operation, DType dtype,
                        std::initializer_list<AxisText> axes) {
  body_ += "  %" + name + " = " + operation + " : " + typeText(dtype, axes) + "\n";
}

void FusionText::output(std::initializer_list<std::string> names) {
  std::string separator = "  output %";
  for (const std::string &each : names) {
    body_ += separator + each;
    separator = ", %";
  }
  body_ += "\n";
}

std::string FusionText::str() const {
  return "fusion @" + name_ + "(" + parameters_ + ") {\n" + body_ + "}\n";
}

} // namespace braid
