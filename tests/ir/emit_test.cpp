//===- tests/ir/emit_test.cpp - modules as Graphviz graphs and as JSON ------------------------===//

#include "tests/support/case_file.h"
#include "tests/support/json.h"

#include "llvm/Support/raw_ostream.h"

#include <functional>

namespace braid::test {
namespace {

constexpr const char *kText = R"(
fusion @f(D = 2) {
  mesh [0 .. D)
  %A = input f32[DIDx{D}, 4]
  output %A
}
program @p mesh [0 .. 2) (%A: f32[4]) -> (%C: f32[4]) {
  if rank == 0 {
    set %C, %A
  } else {
    synchronize stream(1)
  }
}
)";

std::string dot(const Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  emitDot(module, os);
  return os.str();
}

Json json(const Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  emitJson(module, os);
  return Json::parse(os.str());
}

TEST(EmitDot, NodesClustersAndEdges) {
  EXPECT_EQ(dot(parseOrFail(kText)), R"dot(digraph braid {
  node [fontname="monospace"]
  subgraph cluster0 {
    label="fusion @f"
    n0 [shape=box, label="%A = input\nf32[DIDx{D}, 4]"]
    n1 [shape=box, label="output"]
  }
  subgraph cluster1 {
    label="program @p"
    n2 [shape=ellipse, label="%A: f32[4]"]
    n3 [shape=ellipse, label="%C: f32[4]"]
    n4 [shape=box, label="if rank == 0"]
    subgraph cluster2 {
      label="if rank == 0"
      n5 [shape=box, label="set %C, %A"]
    }
    subgraph cluster3 {
      label="else"
      n6 [shape=box, label="synchronize stream(1)"]
    }
  }
  n0 -> n1
  n4 -> n5 [style=dotted]
  n3 -> n5
  n2 -> n5
  n5 -> n6 [style=dotted]
}
)dot");
}

TEST(EmitDot, NamesAreQuoted) {
  Module module;
  module.programs.push_back(std::make_unique<Program>("a\"b\\c\nd", "", 1));
  EXPECT_NE(dot(module).find(R"(label="program @a\"b\\c\nd")"), std::string::npos);
}

TEST(EmitJson, FieldsAreNamedAsInTheClasses) {
  const Json expected = Json::parse(R"({
    "fusions": [{
      "name": "f",
      "parameters": [{"name": "D", "value": 2}],
      "mesh": "D",
      "ranksPerHost": null,
      "nodes": [
        {"kind": "input", "result": {"name": "A", "dtype": "f32", "axes": [
          {"kind": "DIDx", "extent": "D"}, {"kind": "Plain", "extent": "4"}]}},
        {"kind": "output", "tensors": ["%A"]}
      ]
    }],
    "programs": [{
      "name": "p",
      "implements": "",
      "ranks": 2,
      "ranksPerHost": 2,
      "params": [{"name": "A", "kind": "tensor", "dtype": "f32", "shape": ["4"]}],
      "results": [{"name": "C", "kind": "tensor", "dtype": "f32", "shape": ["4"]}],
      "body": [{
        "kind": "if",
        "condition": "rank == 0",
        "thenBlock": [{"kind": "set", "dst": "%C", "src": "%A"}],
        "elseBlock": [{"kind": "synchronize", "stream": {"named": null, "index": "1"}}]
      }]
    }]
  })");
  EXPECT_EQ(json(parseOrFail(kText)), expected);
}

TEST(Emit, HostsOfAMesh) {
  Module module = parseOrFail("fusion @f(L = 2) { mesh [0 .. 8) of L %A = input f32[4] output %A }"
                              "program @p mesh [0 .. 8) of 4 () -> () {}");
  EXPECT_EQ(json(module)["fusions"].at(0)["mesh"], "8");
  EXPECT_EQ(json(module)["fusions"].at(0)["ranksPerHost"], "L");
  EXPECT_EQ(json(module)["programs"].at(0)["ranks"], 8);
  EXPECT_EQ(json(module)["programs"].at(0)["ranksPerHost"], 4);
  EXPECT_NE(dot(module).find(R"(label="fusion @f\nmesh [0 .. 8) of L")"), std::string::npos);
  EXPECT_NE(dot(module).find(R"(label="program @p\nmesh [0 .. 8) of 4")"), std::string::npos);
}

/// Optional parts that are not written are null.
TEST(EmitJson, SumsAndPartialTypes) {
  const Json module = json(parseOrFail(R"(
fusion @f(D = 2) {
  mesh [0 .. D)
  %A = input f16[3, DIDx{D}, 4]
  %w = input f16[5, DIDx{D}, 4]
  %B = input f16[DIDx{D}, 4, 5]
  %b = input f16[5]
  %C = linear %A, %w, %b partial f32 : f16[3, 5]
  %E = matmul %A, %B : f16[3, 5]
  output %C, %E
}
program @p mesh [0 .. 2) (%A: f32[2, 3, 4], %b: f32[4]) -> (%C: f32[3, 4]) {
  sum %C, %A, %b
  sum %C, %A[rank .. rank + 3]
}
)"));
  const Json nodes = module["fusions"].at(0)["nodes"];
  EXPECT_EQ(nodes.at(4)["partial"], "f32");
  EXPECT_EQ(nodes.at(4)["bias"], "%b");
  EXPECT_EQ(nodes.at(5)["partial"], nullptr);
  EXPECT_EQ(module["programs"].at(0)["body"], Json::parse(R"([
    {"kind": "sum", "dst": "%C", "parts": "%A", "begin": null, "end": null, "bias": "%b"},
    {"kind": "sum", "dst": "%C", "parts": "%A", "begin": "rank", "end": "rank + 3", "bias": null}
  ])"));
}

/// Every node of the corpus is there, once, under its keyword.
TEST(EmitJson, HoldsEveryNode) {
  Module module = parseOrFail(readFile("tests/ir/inputs/nodes.braid"));
  size_t nodes = 0;
  walk(module.programs[0]->body(), [&](const Op &) { ++nodes; });
  size_t found = 0;
  std::function<void(const Json &)> count = [&](const Json &block) {
    for (const Json &node : block.elements()) {
      ++found;
      for (const char *inner : {"body", "thenBlock", "elseBlock"})
        count(node[inner]);
    }
  };
  count(json(module)["programs"].at(0)["body"]);
  EXPECT_EQ(found, nodes);
}

TEST(EmitJson, NamesThatAreNoTextDoNotThrow) {
  Module module;
  module.programs.push_back(std::make_unique<Program>("\xFF\x01", "", 1));
  EXPECT_EQ(json(module)["programs"].at(0)["name"], "\xEF\xBF\xBD\x01");
}

} // namespace
} // namespace braid::test
