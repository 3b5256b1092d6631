//===- tests/network/secret_test.cpp - files with secrets, and codes --------------------------===//

#include "runtime/job/network/secret.h"
#include "tests/bootstrap/bootstrap_test.h"

#include "llvm/ADT/StringExtras.h"

#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include <sys/stat.h>

namespace braid {
namespace {

using ::testing::HasSubstr;

constexpr const char *kGoodSecret = "0123456789abcdef";

class SecretFileTest : public ::testing::Test {
protected:
  std::string write(const std::string &text, mode_t mode = 0600) {
    const std::string path = base_.path() + "/secret" + std::to_string(++count_);
    std::ofstream(path, std::ios::binary) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  /// The message of the refusal.
  static std::string refusal(const std::string &path) {
    const Result<std::string> secret = readSecretFile(path);
    EXPECT_FALSE(secret.isOk()) << path;
    if (secret)
      return "";
    EXPECT_EQ(secret.status().code(), StatusCode::BadInput);
    EXPECT_THAT(secret.status().message(), HasSubstr("BRAID_SECRET_FILE"));
    EXPECT_THAT(secret.status().message(), HasSubstr(path));
    return secret.status().message();
  }
  static std::string read(const std::string &path) {
    const Result<std::string> secret = readSecretFile(path);
    EXPECT_TRUE(secret.isOk()) << secret.status().message();
    return secret ? *secret : "";
  }
  const std::string &folder() const { return base_.path(); }

private:
  TemporaryBase base_;
  int count_ = 0;
};

TEST_F(SecretFileTest, WhatItHoldsIsTheSecretButForWhiteSpaceAtTheEnd) {
  EXPECT_EQ(read(write(kGoodSecret)), kGoodSecret);
  EXPECT_EQ(read(write(std::string(kGoodSecret) + " \r\n\n")), kGoodSecret);
  const std::string raw("\0\n \xff\x80 0123456789ab\0", 19);
  EXPECT_EQ(read(write(raw)), raw);
  const std::string random = "\x83\x91 0123456789a \n";
  EXPECT_EQ(read(write(random)), random) << "16 bytes at least";
  EXPECT_EQ(read(write(random + " \n")), random);
  EXPECT_EQ(read(write(kGoodSecret, 0400)), kGoodSecret);
  EXPECT_EQ(whyNotSecret(write(kGoodSecret)), "");
}

TEST_F(SecretFileTest, HasBoundsOnItsSize) {
  EXPECT_EQ(read(write(std::string(kLeastSecretBytes, 'x'))).size(), kLeastSecretBytes);
  EXPECT_EQ(read(write(std::string(kMostSecretBytes, 'x'))).size(), kMostSecretBytes);
  EXPECT_EQ(read(write(std::string(kMostSecretBytes, 'x') + "\n")).size(), kMostSecretBytes);
  EXPECT_THAT(refusal(write(std::string(kLeastSecretBytes - 1, 'x'))), HasSubstr("got 15"));
  EXPECT_THAT(refusal(write(std::string(kMostSecretBytes + 1, 'x'))), HasSubstr("more than 4096"));
  EXPECT_THAT(refusal(write(std::string(1 << 20, 'x'))), HasSubstr("more than 4096"));
  EXPECT_THAT(refusal(write("")), HasSubstr("it is empty"));
  EXPECT_THAT(refusal(write(std::string(100, '\n'))), HasSubstr("got 0"));
}

/// Two files that begin alike are two secrets.
TEST_F(SecretFileTest, NothingAfterWhiteSpaceIsOverlooked) {
  const std::string start = kGoodSecret + std::string(kMostSecretBytes, ' ');
  EXPECT_THAT(refusal(write(start + "one end")), HasSubstr("more than 4096"));
}

TEST_F(SecretFileTest, OthersMayNeitherReadNorChangeIt) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0601, 0666}) {
    const std::string path = write(kGoodSecret, mode);
    EXPECT_THAT(refusal(path), HasSubstr("others may read or change it")) << mode;
    EXPECT_THAT(whyNotSecret(path), HasSubstr("others may read or change it")) << mode;
  }
}

TEST_F(SecretFileTest, IsAFileThatIsThere) {
  EXPECT_THAT(refusal(folder() + "/nothing"), HasSubstr("No such file"));
  EXPECT_THAT(whyNotSecret(folder() + "/nothing"), HasSubstr("No such file"));
  EXPECT_THAT(refusal(folder()), HasSubstr("it is no file"));
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("it is no file"));
  EXPECT_THAT(refusal(write(kGoodSecret) + "/under"), HasSubstr("Not a directory"));
  // One that nobody writes to must not hold anybody up.
  const std::string fifo = folder() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(refusal(fifo), HasSubstr("it is no file"));
}

TEST_F(SecretFileTest, LinksCountAsWhatTheyLeadTo) {
  const std::string link = folder() + "/link", loop = folder() + "/loop";
  std::filesystem::create_symlink(write(kGoodSecret), link);
  EXPECT_EQ(read(link), kGoodSecret);
  std::filesystem::create_symlink(write(kGoodSecret, 0644), link + "2");
  EXPECT_THAT(refusal(link + "2"), HasSubstr("others may read"));
  std::filesystem::create_symlink("nowhere", link + "3");
  EXPECT_THAT(refusal(link + "3"), HasSubstr("No such file"));
  std::filesystem::create_symlink(loop, loop);
  EXPECT_THAT(refusal(loop), HasSubstr("symbolic links"));
}

/// RFC 4231.
TEST(AuthenticationCode, IsThatOfTheStandard) {
  auto code = [](const std::string &key, const std::string &text) {
    return llvm::toHex(authenticationCode(key, text), true);
  };
  std::string counting;
  for (char c = 1; c <= 25; ++c)
    counting += c;
  const std::string longKey(131, '\xaa');
  EXPECT_EQ(code(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(code("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(code(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(code(counting, std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(code(std::string(20, '\x0c'), "Test With Truncation").substr(0, 32),
            "a3b6167473100ee06e0c796c2955552b");
  EXPECT_EQ(code(longKey, "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(code(longKey, "This is a test using a larger than block-size key and a larger than "
                          "block-size data. The key needs to be hashed before being used by the "
                          "HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(AuthenticationCode, SecretsAreEqualOrNot) {
  EXPECT_TRUE(areEqualSecrets("", ""));
  EXPECT_TRUE(areEqualSecrets("same", "same"));
  EXPECT_FALSE(areEqualSecrets("same", "sane"));
  EXPECT_FALSE(areEqualSecrets("same", "sam"));
  EXPECT_FALSE(areEqualSecrets("same", std::string("same\0", 5)));
}

TEST(AuthenticationCode, NobodyGuessesRandomBytes) {
  std::set<std::string> drawn;
  for (int i = 0; i < 1000; ++i)
    drawn.insert(randomBytes(32));
  EXPECT_EQ(drawn.size(), 1000u);
  EXPECT_EQ(randomBytes(0), "");
  EXPECT_EQ(randomBytes(5).size(), 5u);
}

} // namespace
} // namespace braid
