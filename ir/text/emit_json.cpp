//===- ir/text/emit_json.cpp - prints modules as JSON -----------------------------------------===//
//
// Emits one object per node. `kind` is the keyword; the other fields are named after the C++
// members. Uses of values are written as `%x`, and scalars as text.
//
//===----------------------------------------------------------------------------------------===//

#include "ir/module.h"
#include "ir/syntax.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace braid {
namespace {

using JsonStream = llvm::json::OStream;

/// Names from a builder may contain arbitrary bytes, but JsonStream accepts only UTF-8.
llvm::json::Value jsonOf(llvm::StringRef text) {
  return llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text);
}
llvm::json::Value jsonOf(const Scalar *scalar) { return scalar ? jsonOf(scalar->str()) : nullptr; }
llvm::json::Value jsonOf(const Value *value) { return value ? jsonOf("%" + value->name) : nullptr; }
llvm::json::Value jsonOf(const FusionTensor *tensor) {
  return tensor ? jsonOf("%" + tensor->name) : nullptr;
}

void put(JsonStream &) {}

/// Writes fields given as alternating keys and values: `put(json, "dst", op.dst, "a", op.a)`.
template <class T, class... Rest>
void put(JsonStream &json, llvm::StringRef key, const T &value, const Rest &...rest) {
  json.attribute(key, jsonOf(value));
  put(json, rest...);
}

template <class Range> void putList(JsonStream &json, llvm::StringRef key, const Range &values) {
  json.attributeArray(key, [&] {
    for (const auto *value : values)
      json.value(jsonOf(value));
  });
}

/// Writes an array, calling write(json, element) for each element.
template <class Range> void putAll(JsonStream &json, llvm::StringRef key, const Range &elements);

/// Writes a field whose value is an object, calling write(json, value).
template <class T> void putObject(JsonStream &json, llvm::StringRef key, const T &value);

//===----------------------------------------------------------------------------------------===//
// Fusions
//===----------------------------------------------------------------------------------------===//

void write(JsonStream &json, const Axis &axis) {
  json.object([&] { put(json, "kind", name(axis.kind), "extent", axis.extent); });
}

void write(JsonStream &json, const FusionTensor &tensor) {
  json.object([&] {
    put(json, "name", tensor.name, "dtype", name(tensor.type.dtype));
    putAll(json, "axes", tensor.type.axes);
  });
}

void write(JsonStream &json, const FusionNode &node) {
  json.object([&] {
    put(json, "kind", keyword(node));
    if (isGemm(node)) {
      put(json, "a", node.a(), "b", node.b(), "bias", node.bias());
      if (node.pairs() > 1) // the operands of the other products
        putList(json, "added",
                llvm::ArrayRef<FusionTensor *>(node.operands).slice(2, 2 * node.pairs() - 2));
      json.attribute("partial", node.partial ? jsonOf(name(*node.partial)) : nullptr);
    } else if (node.kind != FusionOpKind::Input) {
      putList(json, isElementwise(node) ? "operands" : "tensors", node.operands);
    }
    if (const FusionTensor *result = resultOf(node))
      putObject(json, "result", *result);
  });
}

void write(JsonStream &json, const FusionParameter &parameter) {
  json.object([&] {
    put(json, "name", parameter.name);
    json.attribute("value", parameter.value);
  });
}

void write(JsonStream &json, const Fusion &fusion) {
  json.object([&] {
    put(json, "name", fusion.name());
    putAll(json, "parameters", fusion.parameters());
    put(json, "mesh", fusion.mesh(), "ranksPerHost", fusion.hostSize());
    putAll(json, "nodes", fusion.nodes());
  });
}

//===----------------------------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------------------------===//

void write(JsonStream &json, const StreamRef &stream) {
  json.object([&] { put(json, "named", stream.named, "index", stream.index); });
}

void write(JsonStream &json, const Value &value) {
  json.object([&] {
    put(json, "name", value.name, "kind", name(value.kind));
    if (value.kind == ValueKind::Tensor) {
      put(json, "dtype", name(value.type.dtype));
      putList(json, "shape", value.type.shape);
    }
  });
}

void write(JsonStream &json, const PointwiseStep<Value *> &step) {
  json.object([&] { put(json, "function", keyword(step.function), "operand", step.operand); });
}

void write(JsonStream &json, const Op &op);

/// Writes the parts of a node as JSON fields.
class FieldWriter : public IgnoreParts {
public:
  explicit FieldWriter(JsonStream &json) : json_(json) {}

  /// Absent parts are written as null.
  bool optional(llvm::StringRef, bool, bool = true) { return true; }
  template <class Enum> void choice(llvm::StringRef key, Enum &field, Enum, llvm::StringRef) {
    put(json_, key, name(field));
  }
  void reduction(std::optional<ReductionOperator> &reduction) {
    json_.attribute("reduction", reduction ? jsonOf(name(*reduction)) : nullptr);
  }
  void value(llvm::StringRef key, Value *&value) { put(json_, key, value); }
  void scalar(llvm::StringRef key, const Scalar *&scalar) { put(json_, key, scalar); }
  template <class List> void list(llvm::StringRef key, List &values) {
    putList(json_, key, values);
  }
  void loopIndex(const Scalar *&index) { put(json_, "index", index); }
  void condition(const Scalar *&condition) { put(json_, "condition", condition); }
  void stream(StreamRef &stream) { putObject(json_, "stream", stream); }
  void chain(PointwiseOp &op) {
    put(json_, "first", op.first);
    putAll(json_, "steps", op.steps);
  }
  void payload(P2POp &op) {
    if (op.gemm) {
      putObject(json_, "tensor", op.product);
      putObject<Op>(json_, "gemm", *op.gemm);
    } else {
      put(json_, "tensor", op.tensor);
      json_.attribute("gemm", nullptr);
    }
  }

private:
  JsonStream &json_;
};

void write(JsonStream &json, const Op &op) {
  json.object([&] {
    put(json, "kind", keyword(op));
    forEachPart(FieldWriter(json), op);
    if (const Value *result = resultOf(op))
      putObject(json, "result", *result);
    bool isElse = false;
    forEachBlock(op, [&](const Block &inner) {
      putAll(json, !llvm::isa<IfOp>(op) ? "body" : isElse ? "elseBlock" : "thenBlock", inner);
      isElse = true;
    });
  });
}

void write(JsonStream &json, const Program &program) {
  json.object([&] {
    put(json, "name", program.name(), "implements", program.implements());
    json.attribute("ranks", program.ranks());
    json.attribute("ranksPerHost", program.ranksPerHost());
    putAll(json, "params", program.params());
    putAll(json, "results", program.results());
    putAll(json, "body", program.body());
  });
}

template <class T> void write(JsonStream &json, const std::unique_ptr<T> &owned) {
  write(json, *owned);
}

template <class Range> void putAll(JsonStream &json, llvm::StringRef key, const Range &elements) {
  json.attributeArray(key, [&] {
    for (const auto &element : elements)
      write(json, element);
  });
}

template <class T> void putObject(JsonStream &json, llvm::StringRef key, const T &value) {
  json.attributeBegin(key);
  write(json, value);
  json.attributeEnd();
}

} // namespace

void emitJson(const Module &module, llvm::raw_ostream &os) {
  JsonStream json(os, 2);
  json.object([&] {
    putAll(json, "fusions", module.fusions);
    putAll(json, "programs", module.programs);
  });
  os << '\n';
}

} // namespace braid
