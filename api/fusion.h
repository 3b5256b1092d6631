//===- api/fusion.h - builds the text of a fusion in C++ --------------------------------------===//
//
//   FusionText f("ag_matmul");
//   Extent d = f.parameter("D", 8), m = f.parameter("M", 1024);
//   f.mesh(d);
//   f.input("A", DType::BF16, {didx(d), plain(m / d), plain(512)});
//   f.input("B", DType::BF16, {plain(512), plain(256)});
//   f.define("C", "matmul %A, %B", DType::BF16, {stream(d), plain(m / d), plain(256)});
//   f.output({"C"});
//   Result<CompiledProgram> program = compileText("ag_matmul", f.str());
//
// FusionText only generates text; compileText() parses and verifies it. See ir/README.md for the
// grammar.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/tensor.h"

#include <initializer_list>
#include <string>

namespace braid {

/// The extent of an axis: a number, a parameter, or an arithmetic expression over both.
class Extent {
public:
  Extent(int64_t value) : text_(std::to_string(value)) {}
  const std::string &str() const { return text_; }

  friend Extent operator+(const Extent &a, const Extent &b) { return join(a, " + ", b); }
  friend Extent operator-(const Extent &a, const Extent &b) { return join(a, " - ", b); }
  friend Extent operator*(const Extent &a, const Extent &b) { return join(a, " * ", b); }
  friend Extent operator/(const Extent &a, const Extent &b) { return join(a, " / ", b); }
  /// Returns a / b, rounded up. An axis of this extent must directly follow an axis of extent b.
  friend Extent ceil(const Extent &a, const Extent &b) {
    return Extent("ceil(" + a.text_ + ", " + b.text_ + ")");
  }

private:
  friend class FusionText;
  explicit Extent(std::string text) : text_(std::move(text)) {}
  static Extent join(const Extent &a, const char *operation, const Extent &b) {
    return Extent("(" + a.text_ + operation + b.text_ + ")");
  }
  std::string text_;
};

/// The source text of one axis, including its placement.
struct AxisText {
  std::string text;
};
inline AxisText plain(const Extent &extent) { return {extent.str()}; }
inline AxisText didx(const Extent &extent) { return {"DIDx{" + extent.str() + "}"}; }
inline AxisText stream(const Extent &extent) { return {"Stream{" + extent.str() + "}"}; }

class FusionText {
public:
  explicit FusionText(std::string name) : name_(std::move(name)) {}

  /// Adds a parameter whose default is `value`. All parameters must be added before anything else.
  Extent parameter(const std::string &name, int64_t value);
  void mesh(const Extent &devices);
  void input(const std::string &name, DType dtype, std::initializer_list<AxisText> axes);
  /// Adds `%name = operation : type`, where `operation` is, for example, "linear %x, %w, %bias".
  void define(const std::string &name, const std::string &operation, DType dtype,
              std::initializer_list<AxisText> axes);
  void output(std::initializer_list<std::string> names);

  std::string str() const;

private:
  std::string name_, parameters_, body_;
};

} // namespace braid
