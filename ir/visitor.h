//===- ir/visitor.h - dispatches on the kind of a node ----------------------------------------===//
#pragma once

#include "ir/program.h"

#include "llvm/Support/ErrorHandling.h"

namespace braid {

/// `class Printer : public OpVisitor<Printer>` must define visitAllocate(const AllocateOp &), ...
/// for every kind; omitting one is a compile error.
template <class Derived, class R = void> class OpVisitor {
public:
  R visit(const Op &op) {
    switch (op.kind()) {
#define BRAID_OP(Kind, keyword, results, summary)                                                  \
  case OpKind::Kind:                                                                               \
    return static_cast<Derived *>(this)->visit##Kind(*llvm::cast<Kind##Op>(&op));
#include "ir/program_kinds.def"
    }
    llvm_unreachable("every kind is in the list");
  }
};

} // namespace braid
