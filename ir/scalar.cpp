//===- ir/scalar.cpp - folds, uniques, evaluates and prints scalars ---------------------------===//

#include "ir/scalar.h"

#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <optional>

namespace braid {

llvm::StringRef symbol(ScalarKind kind) {
  static constexpr llvm::StringLiteral kSymbols[] = {
      "+", "-", "*", "/", "mod", "xor", "min", "max", "ceil", "==", "!=", "<", "<=", ">", ">="};
  constexpr auto kFirst = static_cast<size_t>(ScalarKind::Add);
  static_assert(std::size(kSymbols) == static_cast<size_t>(ScalarKind::Ge) - kFirst + 1);
  return kSymbols[static_cast<size_t>(kind) - kFirst];
}

namespace {

ScalarValue failed(ScalarError error) { return {0, error}; }

ScalarValue floorDivide(int64_t a, int64_t b) {
  if (b == 0)
    return failed(ScalarError::DivideByZero);
  if (a == INT64_MIN && b == -1)
    return failed(ScalarError::Overflow);
  int64_t quotient = a / b;
  bool roundedUp = a % b != 0 && (a < 0) != (b < 0);
  return {roundedUp ? quotient - 1 : quotient};
}

ScalarValue ceilDivide(int64_t a, int64_t b) {
  ScalarValue quotient = floorDivide(a, b);
  if (quotient.isOk() && b != -1 && a % b != 0)
    ++quotient.value;
  return quotient;
}

/// Returns the remainder in [0, |b|).
ScalarValue modulo(int64_t a, int64_t b) {
  if (b == 0)
    return failed(ScalarError::DivideByZero);
  if (b == -1)
    return {0};
  int64_t remainder = a % b;
  if (remainder >= 0)
    return {remainder};
  return {b > 0 ? remainder + b : remainder - b};
}

ScalarValue apply(ScalarKind kind, int64_t a, int64_t b, Division division) {
  int64_t value = 0;
  switch (kind) {
  case ScalarKind::Add:
    return __builtin_add_overflow(a, b, &value) ? failed(ScalarError::Overflow)
                                                : ScalarValue{value};
  case ScalarKind::Sub:
    return __builtin_sub_overflow(a, b, &value) ? failed(ScalarError::Overflow)
                                                : ScalarValue{value};
  case ScalarKind::Mul:
    return __builtin_mul_overflow(a, b, &value) ? failed(ScalarError::Overflow)
                                                : ScalarValue{value};
  case ScalarKind::Div:
    if (division == Division::Exact && b != 0 && b != -1 && a % b != 0)
      return failed(ScalarError::Inexact);
    return floorDivide(a, b);
  case ScalarKind::Mod:
    return modulo(a, b);
  case ScalarKind::Xor:
    return {a ^ b};
  case ScalarKind::Min:
    return {std::min(a, b)};
  case ScalarKind::Max:
    return {std::max(a, b)};
  case ScalarKind::Ceil:
    return ceilDivide(a, b);
  case ScalarKind::Eq:
    return {a == b};
  case ScalarKind::Ne:
    return {a != b};
  case ScalarKind::Lt:
    return {a < b};
  case ScalarKind::Le:
    return {a <= b};
  case ScalarKind::Gt:
    return {a > b};
  case ScalarKind::Ge:
    return {a >= b};
  default:
    llvm_unreachable("not a binary scalar");
  }
}

ScalarValue leafAt(llvm::ArrayRef<int64_t> values, int64_t number) {
  if (number < 0 || static_cast<size_t>(number) >= values.size())
    return failed(ScalarError::Unbound);
  return {values[static_cast<size_t>(number)]};
}

int precedence(ScalarKind kind) {
  if (!isBinary(kind) || isCall(kind))
    return 4;
  if (isComparison(kind))
    return 0;
  if (kind == ScalarKind::Xor)
    return 1;
  return kind == ScalarKind::Add || kind == ScalarKind::Sub ? 2 : 3;
}

void print(const Scalar *scalar, int minimum, std::string &out);

void printCall(const Scalar *scalar, std::string &out) {
  out += symbol(scalar->kind()).str() + "(";
  print(scalar->lhs(), 0, out);
  out += ", ";
  print(scalar->rhs(), 0, out);
  out += ")";
}

void print(const Scalar *scalar, int minimum, std::string &out) {
  switch (scalar->kind()) {
  case ScalarKind::Constant:
    out += std::to_string(scalar->value());
    return;
  case ScalarKind::Parameter:
    out += scalar->name().str();
    return;
  case ScalarKind::Rank:
    out += "rank";
    return;
  case ScalarKind::LoopIndex:
    out += "%" + scalar->name().str();
    return;
  case ScalarKind::Min:
  case ScalarKind::Max:
  case ScalarKind::Ceil:
    return printCall(scalar, out);
  default:
    break;
  }
  int own = precedence(scalar->kind());
  // Print a quotient such as `M/D` without spaces, since it reads as a single extent.
  bool isTight = scalar->kind() == ScalarKind::Div && !isBinary(scalar->lhs()->kind());
  std::string space = isTight ? "" : " ";
  if (own < minimum)
    out += "(";
  print(scalar->lhs(), own, out);
  out += space + symbol(scalar->kind()).str() + space;
  print(scalar->rhs(), own + 1, out); // all operators are left-associative
  if (own < minimum)
    out += ")";
}

} // namespace

std::string Scalar::str() const {
  std::string out;
  print(this, 0, out);
  return out;
}

llvm::StringRef describe(ScalarError error) {
  static constexpr llvm::StringLiteral kTexts[] = {"is fine", "overflows 64 bits",
                                                   "divides by zero", "is not an integer",
                                                   "uses a name that is not in scope here"};
  return kTexts[static_cast<size_t>(error)];
}

ScalarValue evaluate(const Scalar *scalar, const ScalarEnv &env) {
  switch (scalar->kind()) {
  case ScalarKind::Constant:
    return {scalar->value()};
  case ScalarKind::Parameter:
    return leafAt(env.parameters, scalar->value());
  case ScalarKind::Rank:
    return env.rank < 0 ? failed(ScalarError::Unbound) : ScalarValue{env.rank};
  case ScalarKind::LoopIndex:
    return leafAt(env.loops, scalar->value());
  default:
    break;
  }
  ScalarValue lhs = evaluate(scalar->lhs(), env);
  if (!lhs.isOk())
    return lhs;
  ScalarValue rhs = evaluate(scalar->rhs(), env);
  if (!rhs.isOk())
    return rhs;
  return apply(scalar->kind(), lhs.value, rhs.value, env.division);
}

const Scalar *ScalarContext::unique(ScalarKind kind, int64_t value, const Scalar *lhs,
                                    const Scalar *rhs, llvm::StringRef name) {
  auto [entry, isNew] = uniqued_.try_emplace(Key{kind, value, lhs, rhs}, nullptr);
  if (isNew)
    entry->second = &nodes_.emplace_back(Scalar(kind, value, lhs, rhs, name.str()));
  return entry->second;
}

const Scalar *ScalarContext::constant(int64_t value) {
  return unique(ScalarKind::Constant, value, nullptr, nullptr);
}

const Scalar *ScalarContext::rank() { return unique(ScalarKind::Rank, 0, nullptr, nullptr); }

const Scalar *ScalarContext::addParameter(llvm::StringRef name) {
  return unique(ScalarKind::Parameter, parameterCount_++, nullptr, nullptr, name);
}

const Scalar *ScalarContext::addLoopIndex(llvm::StringRef name) {
  return unique(ScalarKind::LoopIndex, loopIndexCount_++, nullptr, nullptr, name);
}

/// Returns c for `rank + c`, and -c for `rank - c`, if the constant c is small.
static std::optional<int64_t> offsetFromRank(const Scalar *scalar) {
  constexpr int64_t kSmall = int64_t(1) << 32;
  bool isSum = scalar->kind() == ScalarKind::Add || scalar->kind() == ScalarKind::Sub;
  if (!isSum || scalar->lhs()->kind() != ScalarKind::Rank || !scalar->rhs()->isConstant())
    return std::nullopt;
  int64_t offset = scalar->rhs()->value();
  if (offset > kSmall || offset < -kSmall)
    return std::nullopt;
  return scalar->kind() == ScalarKind::Add ? offset : -offset;
}

/// Returns the simplified form of `lhs op rhs`, or null if there is none. Applies only rules that
/// are valid for all values of the leaves, so that folding never hides an error.
const Scalar *ScalarContext::fold(ScalarKind kind, const Scalar *lhs, const Scalar *rhs) {
  if (kind == ScalarKind::Ceil)
    return nullptr;
  if (lhs->isConstant() && rhs->isConstant()) {
    ScalarValue value = apply(kind, lhs->value(), rhs->value(), division_);
    return value.isOk() ? constant(value.value) : nullptr;
  }
  switch (kind) {
  case ScalarKind::Add:
    if (lhs->isConstant(0))
      return rhs;
    return rhs->isConstant(0) ? lhs : foldOffset(kind, lhs, rhs);
  case ScalarKind::Sub:
    return rhs->isConstant(0) ? lhs : foldOffset(kind, lhs, rhs);
  case ScalarKind::Mul:
    if (lhs->isConstant(1))
      return rhs;
    return rhs->isConstant(1) ? lhs : nullptr;
  case ScalarKind::Div:
    return rhs->isConstant(1) ? lhs : nullptr;
  case ScalarKind::Xor:
    if (lhs->isConstant(0))
      return rhs;
    return rhs->isConstant(0) ? lhs : nullptr;
  case ScalarKind::Min:
  case ScalarKind::Max:
    return lhs == rhs ? lhs : nullptr;
  case ScalarKind::Mod:
    // `rank` is always less than the mesh size.
    if (lhs->kind() == ScalarKind::Rank && ranks_ > 0 && rhs->isConstant() &&
        rhs->value() >= ranks_)
      return lhs;
    return nullptr;
  default:
    return nullptr;
  }
}

/// Folds, for example, (rank + 3) - 1 to rank + 2. Folding never hides an overflow, because the
/// constants are small.
const Scalar *ScalarContext::foldOffset(ScalarKind kind, const Scalar *lhs, const Scalar *rhs) {
  std::optional<int64_t> inner = offsetFromRank(lhs);
  if (!inner || !rhs->isConstant() || rhs->value() > INT32_MAX || rhs->value() < INT32_MIN)
    return nullptr;
  int64_t total = kind == ScalarKind::Add ? *inner + rhs->value() : *inner - rhs->value();
  return total < 0 ? sub(rank(), constant(-total)) : add(rank(), constant(total));
}

const Scalar *ScalarContext::binary(ScalarKind kind, const Scalar *lhs, const Scalar *rhs) {
  if (const Scalar *folded = fold(kind, lhs, rhs))
    return folded;
  return unique(kind, 0, lhs, rhs);
}

const Scalar *ScalarContext::substitute(const Scalar *scalar, const Scalar *from,
                                        const Scalar *to) {
  if (scalar == from)
    return to;
  if (!isBinary(scalar->kind()))
    return scalar;
  return binary(scalar->kind(), substitute(scalar->lhs(), from, to),
                substitute(scalar->rhs(), from, to));
}

} // namespace braid
