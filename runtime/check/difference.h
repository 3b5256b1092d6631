//===- runtime/check/difference.h - describes how an output differs from its definition -------===//
#pragma once

#include "runtime/check/definition.h"

namespace braid::checker {

/// Compares an output's contents with the expected contents, and describes the first byte that
/// differs. For sums, lists the addends that are missing, unexpected or added twice, or shows the
/// order of the additions.
class Difference {
public:
  Difference(const Terms &terms, const Definition &definition, const FusionTensor &output,
             uint32_t run, const std::vector<std::string> &inputNames)
      : terms_(terms), definition_(definition), output_(output), run_(run),
        inputNames_(inputNames) {}

  /// Finds the first difference. `got` and `expected` must differ.
  void find(const Pieces &got, const Pieces &expected);
  std::string summary() const;
  std::vector<std::string> notes() const;
  /// Returns the offset of the first byte that differs.
  int64_t at() const { return at_; }
  /// Returns the number of bytes, starting at at(), that have the same origin.
  int64_t bytes() const { return got_.bytes; }
  /// Returns true if both contents are GEMMs of the same rows with different second operands.
  bool hasOtherFactor() const;

private:
  void compareSums(DType partial);
  void findMissing(const Addends &got, const Addends &expected);
  void findForeign(const Addends &got, const Addends &expected);
  std::string nameOf(const Addend &addend, bool isExpected) const;
  std::string briefNameOf(const Addend &addend) const;
  std::string orderOf(const Piece &sum) const;
  std::string describe(const Piece &piece) const;

  const Terms &terms_;
  const Definition &definition_;
  const FusionTensor &output_;
  const uint32_t run_;
  const std::vector<std::string> &inputNames_;
  int64_t at_ = 0;
  Piece got_, expected_;
  bool isReordered_ = false;
  std::vector<std::string> addendNotes_;
};

} // namespace braid::checker
