//===- ir/scalar.h - integer index expressions ------------------------------------------------===//
//
// Extents, indices, peers, stream numbers and conditions are scalars: immutable trees over integer
// constants, fusion parameters, `rank` and loop indices. A ScalarContext folds and uniques scalars,
// so that equal expressions have the same address:
//
//   ctx.mod(ctx.add(ctx.rank(), ctx.constant(0)), ctx.constant(8))  ==  ctx.rank()   // on 8 ranks
//
// Arithmetic uses 64-bit integers. An expression that overflows or divides by zero is never folded;
// evaluating the expression returns the error. `mod` never yields a negative value, and `/` rounds
// toward negative infinity. In a fusion, an inexact `/` is an error (Division::Exact). `xor` has
// lower precedence than `+`. `min`, `max` and `ceil` (a quotient rounded up) are written as calls.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>

namespace braid {

enum class ScalarKind : uint8_t {
  Constant,
  Parameter, ///< a fusion's `D`, `M`, ...
  Rank,      ///< the index of the executing device in the mesh
  LoopIndex, ///< `%i` of one particular loop
  Add,
  Sub,
  Mul,
  Div,
  Mod,
  Xor, ///< bitwise
  Min,
  Max,
  /// `ceil(M, D)`: the number of rows per device if D need not divide M. Never folded, so that it
  /// is printed as written.
  Ceil,
  Eq, ///< comparisons yield 1 or 0, and occur only at the root of an `if` condition
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
};

inline bool isComparison(ScalarKind kind) { return kind >= ScalarKind::Eq; }
inline bool isBinary(ScalarKind kind) { return kind >= ScalarKind::Add; }
/// True if the operator is written as a call, such as `min(a, b)`, rather than infix.
inline bool isCall(ScalarKind kind) { return kind >= ScalarKind::Min && kind <= ScalarKind::Ceil; }
/// True if the second operand must not be zero.
inline bool divides(ScalarKind kind) {
  return kind == ScalarKind::Div || kind == ScalarKind::Mod || kind == ScalarKind::Ceil;
}
/// Returns the spelling of a binary operator: "+", "mod", "xor", "min", "!=", ...
llvm::StringRef symbol(ScalarKind kind);

/// A node of an expression tree, created and owned by a ScalarContext.
class Scalar {
public:
  ScalarKind kind() const { return kind_; }
  /// The value of a constant, or the number of a parameter or loop index in its context.
  int64_t value() const { return value_; }
  const Scalar *lhs() const { return lhs_; }
  const Scalar *rhs() const { return rhs_; }
  /// The name of the parameter or loop index, without `%`.
  llvm::StringRef name() const { return name_; }

  bool isConstant() const { return kind_ == ScalarKind::Constant; }
  bool isConstant(int64_t value) const { return isConstant() && value_ == value; }
  /// Returns the expression as written in the text, with as few parentheses as possible.
  std::string str() const;

private:
  friend class ScalarContext;
  Scalar(ScalarKind kind, int64_t value, const Scalar *lhs, const Scalar *rhs, std::string name)
      : kind_(kind), value_(value), lhs_(lhs), rhs_(rhs), name_(std::move(name)) {}

  ScalarKind kind_;
  int64_t value_;
  const Scalar *lhs_;
  const Scalar *rhs_;
  std::string name_;
};

enum class ScalarError : uint8_t { None, Overflow, DivideByZero, Inexact, Unbound };

/// The result of an evaluation. `value` is valid only if there is no error.
struct ScalarValue {
  int64_t value = 0;
  ScalarError error = ScalarError::None;
  bool isOk() const { return error == ScalarError::None; }
};

/// Returns a description for messages: "overflows 64 bits", "divides by zero", ...
llvm::StringRef describe(ScalarError error);

enum class Division : uint8_t { Floor, Exact };

/// The values of an expression's leaves. `parameters` and `loops` are indexed by Scalar::value().
/// Evaluating a leaf without an entry, or Rank if `rank` is negative, returns Unbound.
struct ScalarEnv {
  int64_t rank = -1;
  llvm::ArrayRef<int64_t> parameters = {};
  llvm::ArrayRef<int64_t> loops = {};
  Division division = Division::Floor;
};

ScalarValue evaluate(const Scalar *scalar, const ScalarEnv &env);

/// Owns, folds and uniques the scalars of one Fusion or one Program. Not thread-safe.
class ScalarContext {
public:
  explicit ScalarContext(Division division = Division::Floor) : division_(division) {}
  ScalarContext(const ScalarContext &) = delete;
  ScalarContext &operator=(const ScalarContext &) = delete;

  /// Allows `rank mod n` to fold to `rank` if n >= ranks. 0 means that the mesh size is unknown.
  void setRanks(int64_t ranks) { ranks_ = ranks; }

  const Scalar *constant(int64_t value);
  const Scalar *rank();
  /// Adds a parameter; parameters are numbered from 0.
  const Scalar *addParameter(llvm::StringRef name);
  /// Adds a loop index that is distinct from all others, even those with the same name.
  const Scalar *addLoopIndex(llvm::StringRef name);
  int64_t loopIndexCount() const { return loopIndexCount_; }

  const Scalar *binary(ScalarKind kind, const Scalar *lhs, const Scalar *rhs);
  const Scalar *add(const Scalar *a, const Scalar *b) { return binary(ScalarKind::Add, a, b); }
  const Scalar *sub(const Scalar *a, const Scalar *b) { return binary(ScalarKind::Sub, a, b); }
  const Scalar *mul(const Scalar *a, const Scalar *b) { return binary(ScalarKind::Mul, a, b); }
  const Scalar *div(const Scalar *a, const Scalar *b) { return binary(ScalarKind::Div, a, b); }
  const Scalar *mod(const Scalar *a, const Scalar *b) { return binary(ScalarKind::Mod, a, b); }
  const Scalar *bitXor(const Scalar *a, const Scalar *b) { return binary(ScalarKind::Xor, a, b); }
  const Scalar *min(const Scalar *a, const Scalar *b) { return binary(ScalarKind::Min, a, b); }
  const Scalar *max(const Scalar *a, const Scalar *b) { return binary(ScalarKind::Max, a, b); }
  const Scalar *ceil(const Scalar *a, const Scalar *b) { return binary(ScalarKind::Ceil, a, b); }

  /// Replaces every occurrence of the leaf `from` in `scalar` with `to`. Returns the folded result.
  const Scalar *substitute(const Scalar *scalar, const Scalar *from, const Scalar *to);

private:
  using Key = std::tuple<ScalarKind, int64_t, const Scalar *, const Scalar *>;
  const Scalar *unique(ScalarKind kind, int64_t value, const Scalar *lhs, const Scalar *rhs,
                       llvm::StringRef name = "");
  const Scalar *fold(ScalarKind kind, const Scalar *lhs, const Scalar *rhs);
  const Scalar *foldOffset(ScalarKind kind, const Scalar *lhs, const Scalar *rhs);

  Division division_;
  int64_t ranks_ = 0;
  int64_t parameterCount_ = 0;
  int64_t loopIndexCount_ = 0;
  std::deque<Scalar> nodes_;
  std::map<Key, const Scalar *> uniqued_;
};

} // namespace braid
