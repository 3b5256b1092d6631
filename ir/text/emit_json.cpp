//===- ir/text/emit_json.cpp - modules as JSON ------------------------------------------------===//
//
// One object per node: `kind` is the keyword, the other fields are named as in the C++ classes.
// Values are written `%x` where they are used, scalars as text.
//
//===----------------------------------------------------------------------------------------===//

#include "ir/module.h"
#include "ir/visitor.h"

#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

namespace braid {
namespace {

using Json = nlohmann::ordered_json;

Json text(llvm::StringRef string) { return string.str(); }

Json text(const Scalar *scalar) { return scalar ? Json(scalar->str()) : Json(); }

//===----------------------------------------------------------------------------------------===//
// Fusions
//===----------------------------------------------------------------------------------------===//

Json ref(const FusionTensor *tensor) { return tensor ? Json("%" + tensor->name) : Json(); }

Json define(const FusionTensor &tensor) {
  Json axes = Json::array();
  for (const Axis &axis : tensor.type.axes)
    axes.push_back({{"kind", text(name(axis.kind))}, {"extent", text(axis.extent)}});
  return {{"name", tensor.name}, {"dtype", text(braid::name(tensor.type.dtype))}, {"axes", axes}};
}

Json convert(const FusionNode &node) {
  Json json = {{"kind", text(keyword(node))}};
  if (const auto *matmul = llvm::dyn_cast<MatmulNode>(&node)) {
    json["a"] = ref(matmul->a);
    json["b"] = ref(matmul->b);
    json["bias"] = ref(matmul->bias);
    json["partial"] = matmul->partial ? text(name(*matmul->partial)) : Json();
  } else if (isElementwise(node)) {
    json["operands"] = Json::array();
    for (const FusionTensor *operand : operandsOf(node))
      json["operands"].push_back(ref(operand));
  } else if (const auto *output = llvm::dyn_cast<OutputNode>(&node)) {
    json["tensors"] = Json::array();
    for (const FusionTensor *tensor : output->tensors)
      json["tensors"].push_back(ref(tensor));
  }
  if (const FusionTensor *result = resultOf(node))
    json["result"] = define(*result);
  return json;
}

Json convert(const Fusion &fusion) {
  Json json = {{"name", fusion.name()}, {"parameters", Json::array()}};
  for (const FusionParameter &parameter : fusion.parameters())
    json["parameters"].push_back({{"name", parameter.name}, {"value", parameter.value}});
  json["mesh"] = text(fusion.mesh());
  json["ranksPerHost"] = text(fusion.hostSize());
  json["nodes"] = Json::array();
  for (const auto &node : fusion.nodes())
    json["nodes"].push_back(convert(*node));
  return json;
}

//===----------------------------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------------------------===//

Json ref(const Value *value) { return value ? Json("%" + value->name) : Json(); }

Json ref(const StreamRef &stream) {
  return {{"named", ref(stream.named)}, {"index", text(stream.index)}};
}

Json list(llvm::ArrayRef<const Scalar *> scalars) {
  Json json = Json::array();
  for (const Scalar *scalar : scalars)
    json.push_back(text(scalar));
  return json;
}

Json define(const Value &value) {
  Json json = {{"name", value.name}, {"kind", text(name(value.kind))}};
  if (value.kind == ValueKind::Tensor) {
    json["dtype"] = text(name(value.type.dtype));
    json["shape"] = list(value.type.shape);
  }
  return json;
}

Json convertNode(const Op &op);

/// The fields of a node, but its kind, result and blocks.
class FieldEmitter : public OpVisitor<FieldEmitter, Json> {
public:
  Json visitAllocate(const AllocateOp &op) {
    return {{"space", op.space == MemorySpace::Symmetric ? "symmetric" : "device"}};
  }
  Json visitDeallocate(const DeallocateOp &op) { return {{"buffer", ref(op.buffer)}}; }
  Json visitFor(const ForOp &op) {
    return {{"index", text(op.index)}, {"begin", text(op.begin)}, {"end", text(op.end)}};
  }
  Json visitIf(const IfOp &op) { return {{"condition", text(op.condition)}}; }
  Json visitSelect(const SelectOp &op) {
    return {{"tensor", ref(op.tensor)}, {"index", text(op.index)}};
  }
  Json visitSlice(const SliceOp &op) {
    return {{"tensor", ref(op.tensor)}, {"begin", text(op.begin)}, {"end", text(op.end)}};
  }
  Json visitFlatten(const FlattenOp &op) { return {{"tensor", ref(op.tensor)}}; }
  Json visitSet(const SetOp &op) { return {{"dst", ref(op.dst)}, {"src", ref(op.src)}}; }
  Json visitMatmul(const MatmulOp &op) {
    return {{"dst", ref(op.dst)},
            {"a", ref(op.a)},
            {"b", ref(op.b)},
            {"bias", ref(op.bias)},
            {"addend", ref(op.addend)}};
  }
  Json visitSum(const SumOp &op) {
    return {{"dst", ref(op.dst)},
            {"parts", ref(op.parts)},
            {"begin", text(op.begin)},
            {"end", text(op.end)},
            {"bias", ref(op.bias)}};
  }
  Json visitPointwise(const PointwiseOp &op) {
    Json steps = Json::array();
    for (const PointwiseStep<Value *> &step : op.steps)
      steps.push_back({{"function", text(keyword(step.function))}, {"operand", ref(step.operand)}});
    return {{"dst", ref(op.dst)}, {"first", ref(op.first)}, {"steps", steps}};
  }
  Json visitShareMemHandles(const ShareMemHandlesOp &op) {
    Json buffers = Json::array();
    for (const Value *buffer : op.buffers)
      buffers.push_back(ref(buffer));
    return {{"protocol", text(name(op.protocol))}, {"buffers", buffers}};
  }
  Json visitP2P(const P2POp &op) {
    return {{"direction", op.direction == Direction::Send ? "send" : "recv"},
            {"tensor", op.gemm ? define(op.product) : ref(op.tensor)},
            {"gemm", op.gemm ? convertNode(*op.gemm) : Json()},
            {"peer", text(op.peer)},
            {"handles", ref(op.handles)}};
  }
  Json visitGroup(const GroupOp &) { return Json::object(); }
  Json visitCollective(const CollectiveOp &op) {
    return {{"collective", text(name(op.collective))},
            {"reduction", op.reduction ? text(name(*op.reduction)) : Json()},
            {"dst", ref(op.dst)},
            {"src", ref(op.src)},
            {"team", list(op.team)},
            {"root", text(op.root)}};
  }
  Json visitWait(const WaitOp &op) { return {{"request", ref(op.request)}}; }
  Json visitSynchronize(const SynchronizeOp &op) { return {{"stream", ref(op.stream)}}; }
  Json visitGetCurrentStream(const GetCurrentStreamOp &) { return Json::object(); }
  Json visitSetCurrentStream(const SetCurrentStreamOp &op) { return {{"stream", ref(op.stream)}}; }
};

/// Not inlined into convert(), whose frames stand on the stack for each block around a node.
LLVM_ATTRIBUTE_NOINLINE Json convertNode(const Op &op) {
  Json json = {{"kind", text(keyword(op))}};
  json.update(FieldEmitter().visit(op));
  if (const Value *result = resultOf(op))
    json["result"] = define(*result);
  return json;
}

void convert(const Block &block, Json &json) {
  json = Json::array();
  for (const Op &op : block) {
    Json &node = json.emplace_back(convertNode(op));
    bool isElse = false;
    forEachBlock(op, [&](const Block &inner) {
      convert(inner, node[!llvm::isa<IfOp>(op) ? "body" : isElse ? "elseBlock" : "thenBlock"]);
      isElse = true;
    });
  }
}

Json define(llvm::ArrayRef<std::unique_ptr<Value>> values) {
  Json json = Json::array();
  for (const auto &value : values)
    json.push_back(define(*value));
  return json;
}

Json convert(const Program &program) {
  Json json = {{"name", program.name()},
               {"implements", program.implements()},
               {"ranks", program.ranks()},
               {"ranksPerHost", program.ranksPerHost()},
               {"params", define(program.params())},
               {"results", define(program.results())}};
  convert(program.body(), json["body"]);
  return json;
}

} // namespace

void emitJson(const Module &module, llvm::raw_ostream &os) {
  Json json = {{"fusions", Json::array()}, {"programs", Json::array()}};
  for (const auto &fusion : module.fusions)
    json["fusions"].push_back(convert(*fusion));
  for (const auto &program : module.programs)
    json["programs"].push_back(convert(*program));
  // Names made by a builder can hold any bytes; the dump must not throw on them.
  os << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

} // namespace braid
