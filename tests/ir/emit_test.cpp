//===- tests/ir/emit_test.cpp - modules as Graphviz graphs and as JSON ------------------------===//

#include "tests/support/case_file.h"
#include "tests/support/json.h"

#include "llvm/Support/raw_ostream.h"

#include <functional>

namespace braid::test {
namespace {

std::string dot(const Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  emitDot(module, os);
  return os.str();
}

std::string jsonText(const Module &module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  emitJson(module, os);
  return os.str();
}

Json json(const Module &module) { return Json::parse(jsonText(module)); }

TEST(EmitDot, NodesClustersAndEdges) {
  checkCases("tests/ir/inputs/emit_dot.cases",
             [](const std::string &text) { return dot(parseOrFail(text)); });
}

TEST(EmitDot, NamesAreQuoted) {
  Module module;
  module.programs.push_back(std::make_unique<Program>("a\"b\\c\nd", "", 1));
  EXPECT_NE(dot(module).find(R"(label="program @a\"b\\c\nd")"), std::string::npos);
}

TEST(EmitJson, FieldsAreNamedAsInTheClasses) {
  checkCases("tests/ir/inputs/emit_json.cases",
             [](const std::string &text) { return jsonText(parseOrFail(text)); });
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

/// Every node in nodes.braid occurs once, with its keyword.
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
