#include "ir/printable.h"

#include "api/status.h"
#include "ir/diagnostics.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(Printable, EscapesWhatIsNotSeenAsItself) {
  EXPECT_EQ(printable("plain / text"), "plain / text");
  EXPECT_EQ(printable("\x1b[31m\t\xff\x7f"), "\\x1b[31m\\x09\\xff\\x7f");
  EXPECT_EQ(printable("pr\xc3\xbc"
                      "f\xc2\x9b\xe2\x80\xae"),
            "pr\xc3\xbc"
            "f\\x9b\\u{202e}");
}

/// An escape sequence or a character is either complete or omitted.
TEST(Printable, KeepsTheBeginningOfALongText) {
  EXPECT_EQ(printable("12345", 5), "12345");
  EXPECT_EQ(printable("123456", 5), "12345...");
  EXPECT_EQ(printable(llvm::StringRef("\0\0\0", 3), 5), "\\x00...");
}

/// A message may quote untrusted text from a flag, a file or another host.
TEST(Status, MessagesMoveNoCursor) {
  const Status status(StatusCode::PeerFailed, "rank 1:\x1b[2J\xff\n\tpr\xc3\xbc"
                                              "f\r\xe2\x80\xae");
  EXPECT_EQ(status.message(), "rank 1:\\x1b[2J\\xff\n\tpr\xc3\xbc"
                              "f\\x0d\\u{202e}");
  EXPECT_EQ(status.annotated("\x1b").message(), "\\x1b: " + status.message());
}

TEST(Diagnostics, MessagesMoveNoCursor) {
  Diagnostics diags("a", "text");
  diags.error({1, 1}).note({1, 2}, "\x07") << "strange \x1b[2J";
  EXPECT_EQ(diags.str(), "a:1:1: error: strange \\x1b[2J\ntext\n^\n"
                         "a:1:2: note: \\x07\ntext\n ^\n");
}

TEST(Diagnostics, NamesOfFilesMoveNoCursor) {
  Diagnostics diags("a\x1b[2J\nb", "text");
  diags.error({1, 1}) << "strange";
  EXPECT_EQ(diags.str(), "a\\x1b[2J\\x0ab:1:1: error: strange\ntext\n^\n");
}

} // namespace
} // namespace braid
