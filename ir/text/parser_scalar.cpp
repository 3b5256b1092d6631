//===- ir/text/parser_scalar.cpp - parses index expressions -----------------------------------===//

#include "ir/text/parser.h"

#include "llvm/Support/SaveAndRestore.h"

namespace braid {

/// scalar := sum ('xor' sum)*
const Scalar *StatementParser::parseScalar() {
  if (nesting_ == 0)
    operators_ = 0;
  return parseXor();
}

/// operand (operator operand)*, left-associative
const Scalar *StatementParser::parseChain(llvm::ArrayRef<ScalarKind> operators, Level operand) {
  const Scalar *lhs = (this->*operand)();
  while (lhs) {
    const Token &token = cursor_.peek();
    const auto *found =
        llvm::find_if(operators, [&](ScalarKind kind) { return cursor_.at(symbol(kind)); });
    if (found == operators.end())
      return lhs;
    if (!countOperator(token.location))
      return nullptr;
    cursor_.take();
    const Scalar *rhs = (this->*operand)();
    lhs = rhs ? combine(*found, lhs, rhs, token.location) : nullptr;
  }
  return nullptr;
}

const Scalar *StatementParser::parseXor() {
  return parseChain(ScalarKind::Xor, &StatementParser::parseSum);
}

/// sum := product (('+' | '-') product)*
const Scalar *StatementParser::parseSum() {
  return parseChain({ScalarKind::Add, ScalarKind::Sub}, &StatementParser::parseProduct);
}

/// product := unary (('*' | '/' | 'mod') unary)*
const Scalar *StatementParser::parseProduct() {
  return parseChain({ScalarKind::Mul, ScalarKind::Div, ScalarKind::Mod},
                    &StatementParser::parseUnary);
}

/// unary := '-' unary | primary
const Scalar *StatementParser::parseUnary() {
  return cursor_.at("-") ? parseNegated() : parsePrimary();
}

const Scalar *StatementParser::parseNegated() {
  Location location = cursor_.take().location;
  // Parse a minus and its integer together, because INT64_MIN has no positive counterpart.
  if (cursor_.at(TokenKind::Integer))
    return scalars_.constant(static_cast<int64_t>(-cursor_.take().magnitude));
  llvm::SaveAndRestore<int> nested(nesting_, nesting_ + 1);
  if (!countNesting(location) || !countOperator(location))
    return nullptr;
  const Scalar *operand = parseUnary();
  return operand ? combine(ScalarKind::Sub, scalars_.constant(0), operand, location) : nullptr;
}

/// primary := integer | id | 'rank' | '%'id | '(' scalar ')' | call
const Scalar *StatementParser::parsePrimary() {
  if (cursor_.at("("))
    return parseParenthesised();
  if (cursor_.at(TokenKind::Integer))
    return parseConstant();
  for (ScalarKind kind : {ScalarKind::Min, ScalarKind::Max, ScalarKind::Ceil})
    if (cursor_.at(symbol(kind)))
      return parseCall(kind);
  if (!cursor_.at(TokenKind::Word) && !cursor_.at(TokenKind::ValueName)) {
    cursor_.expected("an expression");
    return nullptr;
  }
  const Scalar *leaf = resolve(cursor_.peek());
  if (leaf)
    cursor_.take();
  return leaf;
}

const Scalar *StatementParser::parseParenthesised() {
  llvm::SaveAndRestore<int> nested(nesting_, nesting_ + 1);
  if (!countNesting(cursor_.take().location))
    return nullptr;
  const Scalar *inner = parseXor();
  return inner && cursor_.expect(")") ? inner : nullptr;
}

/// call := ('min' | 'max' | 'ceil') '(' scalar ',' scalar ')'
const Scalar *StatementParser::parseCall(ScalarKind kind) {
  llvm::SaveAndRestore<int> nested(nesting_, nesting_ + 1);
  const Location location = cursor_.take().location;
  if (!countNesting(location) || !countOperator(location) || !cursor_.expect("("))
    return nullptr;
  const Scalar *lhs = parseXor();
  if (!lhs || !cursor_.expect(","))
    return nullptr;
  const Scalar *rhs = parseXor();
  if (!rhs || !cursor_.expect(")"))
    return nullptr;
  return combine(kind, lhs, rhs, location);
}

bool StatementParser::countNesting(Location location) {
  if (nesting_ <= kMaxNesting)
    return true;
  return cursor_.error(location)
         << "parentheses and minus signs are nested too deeply; expected at most " << kMaxNesting
         << " levels";
}

bool StatementParser::countOperator(Location location) {
  if (++operators_ <= kMaxOperators)
    return true;
  return cursor_.error(location) << "the expression is too long; expected at most " << kMaxOperators
                                 << " operators";
}

const Scalar *StatementParser::parseConstant() {
  std::optional<int64_t> value = parseInteger(cursor_, /*isSigned=*/false);
  return value ? scalars_.constant(*value) : nullptr;
}

const Scalar *StatementParser::combine(ScalarKind kind, const Scalar *lhs, const Scalar *rhs,
                                       Location location) {
  const Scalar *made = scalars_.binary(kind, lhs, rhs);
  bool dividesByZero = divides(kind) && rhs->isConstant(0);
  bool isConstantArithmetic = lhs->isConstant() && rhs->isConstant() && !made->isConstant();
  if (!dividesByZero && !isConstantArithmetic)
    return made;
  // Leave inexact constant quotients to the verifier, which can name the axis in its message.
  ScalarError error = dividesByZero ? ScalarError::DivideByZero
                                    : evaluate(made, {.division = Division::Floor}).error;
  if (error == ScalarError::None)
    return made;
  cursor_.error(location) << "'" << made->str() << "' " << describe(error);
  return nullptr;
}

} // namespace braid
