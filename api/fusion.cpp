//===- api/fusion.cpp - builds the text of a fusion in C++ ------------------------------------===//

#include "api/fusion.h"
#include "ir/type.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace braid {
namespace {

std::string typeText(DType dtype, std::initializer_list<AxisText> axes) {
  const auto texts = llvm::map_range(axes, [](const AxisText &axis) { return axis.text; });
  return name(dtype).str() + "[" + llvm::join(texts, ", ") + "]";
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
  body_ += "  output %" + llvm::join(names, ", %") + "\n";
}

std::string FusionText::str() const {
  return "fusion @" + name_ + "(" + parameters_ + ") {\n" + body_ + "}\n";
}

} // namespace braid
