//===- tests/runtime/json_test.cpp - reading and writing JSON ---------------------------------===//

#include "runtime/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace braid {
namespace {

std::string messageOf(llvm::StringRef text) {
  const Result<JsonValue> parsed = parseJson(text);
  return parsed ? "" : parsed.status().message();
}

std::string got(llvm::StringRef text) {
  const Result<JsonValue> parsed = parseJson(text);
  return jsonGot(&*parsed);
}

TEST(Json, ParserSaysWhereItStopped) {
  EXPECT_EQ(messageOf("{\"a\": [1, 2.5]}\n"), "");
  EXPECT_EQ(messageOf("{\n \"a\": ?}"), "2:7: expected JSON");
  EXPECT_EQ(messageOf(""), "1:1: expected JSON");
  EXPECT_EQ(messageOf("{\n"), "2:1: expected JSON");
  EXPECT_EQ(messageOf(llvm::StringRef("1\0", 2)), "1:1: expected JSON");
  EXPECT_EQ(messageOf("\"\xff\""), "1:1: expected JSON");
  EXPECT_EQ(messageOf("\n" + std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_EQ(messageOf("\n" + std::string(100000, '[')),
            "2:65: expected JSON nested at most 64 levels deep");
  EXPECT_EQ(messageOf("\"" + std::string(100, '[') + "\\\"\""), "");
}

TEST(Json, GotQuotesTheStartOfAValue) {
  EXPECT_EQ(jsonGot(nullptr), "nothing");
  EXPECT_EQ(got("null"), "nothing");
  EXPECT_EQ(got("[1]"), "an array");
  EXPECT_EQ(got("{}"), "an object");
  EXPECT_EQ(got("0.1"), "0.1");
  EXPECT_EQ(got("1e999"), "inf");
  EXPECT_EQ(got("\"\\u001b[2J\""), "\"\\u001b[2J\"");
  EXPECT_EQ(got("\"" + std::string(100, 'x') + "\""), "\"" + std::string(59, 'x') + "...");
}

TEST(Json, WriterKeepsOrderAndShortNumbers) {
  const std::string text = jsonText([](JsonWriter &json) {
    json.object([&] {
      json.attribute("z", 0.1);
      json.attribute("a", uint64_t(1) << 63);
      json.attribute("text", "\xff<");
      json.attribute("none", std::numeric_limits<double>::infinity());
      json.attributeArray("list", [&] { json.value(1e22); });
    });
  });
  EXPECT_EQ(text, "{\"z\":0.1,\"a\":9223372036854775808,\"text\":\"\xef\xbf\xbd<\",\"none\":null,"
                  "\"list\":[1e+22]}");
}

} // namespace
} // namespace braid
