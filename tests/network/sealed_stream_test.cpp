//===- tests/network/sealed_stream_test.cpp - what was changed is no record of a stream -------===//

#include "runtime/job/network/sealed_stream.h"

#include "llvm/Support/Endian.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace braid {
namespace {

using ::testing::HasSubstr;

const std::string kStreamKey(kStreamKeyBytes, 'k');
constexpr size_t kOverhead = 4 + 16; ///< of a record

std::vector<std::string> sealEach(const std::vector<std::string> &texts) {
  Sealer sealer(kStreamKey);
  std::vector<std::string> records;
  for (const std::string &text : texts)
    sealer.seal(text, records.emplace_back());
  return records;
}

/// What is opened of the records in that order; "!" at its end after a failure.
std::string openAll(const std::vector<std::string> &records) {
  Opener opener(kStreamKey);
  std::string text;
  Status status;
  for (const std::string &record : records)
    status = opener.feed(record, text);
  if (status.isOk())
    return text;
  EXPECT_EQ(status.code(), StatusCode::BadInput);
  EXPECT_FALSE(opener.feed("", text).isOk()) << "it stays failed";
  return text + "!";
}

TEST(SealedStream, WhatIsSealedIsOpenedInAnySplit) {
  std::mt19937 dice(7);
  std::string bytes, sealed;
  Sealer sealer(kStreamKey);
  for (size_t size : {0ul, 1ul, 15ul, 16ul, 17ul, 1000ul, kMaxRecordBytes - 1, kMaxRecordBytes}) {
    std::string text(size, '\0');
    for (char &c : text)
      c = static_cast<char>(dice());
    sealer.seal(text, sealed);
    bytes += text;
  }
  EXPECT_EQ(sealed.size(), bytes.size() + 8 * kOverhead);
  for (int round = 0; round < 20; ++round) {
    Opener opener(kStreamKey);
    std::string opened;
    const size_t most = round == 0 ? 1 : round == 1 ? sealed.size() : 1 + dice() % 100000;
    for (llvm::StringRef rest = sealed; !rest.empty();) {
      const size_t count = std::min<size_t>(rest.size(), 1 + dice() % most);
      ASSERT_TRUE(opener.feed(rest.take_front(count), opened).isOk());
      rest = rest.drop_front(count);
    }
    ASSERT_TRUE(opened == bytes);
  }
}

TEST(SealedStream, NothingOfItCanBeRead) {
  const std::string text = "the same text";
  const auto records = sealEach({text, text});
  EXPECT_NE(records[0], records[1]);
  for (const std::string &record : records)
    EXPECT_EQ(record.find(text), std::string::npos);
}

TEST(SealedStream, NoBitCanBeChanged) {
  const auto records = sealEach({"first", "second"});
  for (size_t which : {0u, 1u})
    for (size_t bit = 0; bit < records[which].size() * 8; ++bit) {
      auto changed = records;
      changed[which][bit / 8] = static_cast<char>(changed[which][bit / 8] ^ (1 << bit % 8));
      Opener opener(kStreamKey);
      std::string text;
      Status status = opener.feed(changed[0], text);
      if (status.isOk())
        status = opener.feed(changed[1], text);
      // A longer length only waits for more.
      ASSERT_TRUE(!status.isOk() || bit < 32) << which << " " << bit;
      ASSERT_EQ(text, which == 0 ? "" : "first") << which << " " << bit;
      (void)opener.feed(std::string(2 * kMaxRecordBytes, 'x'), text);
      ASSERT_EQ(text, which == 0 ? "" : "first");
    }
}

TEST(SealedStream, RecordsStayInTheirOrder) {
  const auto r = sealEach({"a", "b", "c"});
  EXPECT_EQ(openAll({r[0], r[1], r[2]}), "abc");
  EXPECT_EQ(openAll({r[1], r[2]}), "!") << "left out";
  EXPECT_EQ(openAll({r[0], r[2]}), "a!") << "left out";
  EXPECT_EQ(openAll({r[0], r[0]}), "a!") << "repeated";
  EXPECT_EQ(openAll({r[0], r[1], r[0]}), "ab!") << "repeated";
  EXPECT_EQ(openAll({r[1], r[0]}), "!") << "swapped";
  EXPECT_EQ(openAll({r[0] + r[2] + r[1]}), "a!") << "swapped";
}

/// It waits for the rest, and nothing of it is given out.
TEST(SealedStream, ARecordIsOpenedWholeOrNotAtAll) {
  const std::string record = sealEach({"whole"})[0];
  for (size_t size = 0; size < record.size(); ++size)
    EXPECT_EQ(openAll({record.substr(0, size)}), "") << size;
  EXPECT_EQ(openAll({record.substr(0, 10), record.substr(11)}), "") << "one byte less";
  EXPECT_EQ(openAll({record.substr(0, 10), record.substr(11), "x"}), "!");
}

TEST(SealedStream, LengthsHaveBounds) {
  for (const uint32_t length :
       {0u, 1u, 15u, uint32_t(kMaxRecordBytes + 17), uint32_t(1) << 31, ~uint32_t(0)}) {
    char bytes[4];
    llvm::support::endian::write32le(bytes, length);
    Opener opener(kStreamKey);
    std::string text;
    const Status status = opener.feed({bytes, 4}, text);
    EXPECT_EQ(status.code(), StatusCode::BadInput) << length;
    EXPECT_THAT(status.message(), HasSubstr("at most 65536 bytes")) << length;
  }
}

TEST(SealedStream, AnotherKeyOpensNothing) {
  const std::string record = sealEach({"text"})[0];
  for (size_t byte = 0; byte < kStreamKeyBytes; ++byte) {
    std::string key = kStreamKey;
    key[byte] = static_cast<char>(key[byte] ^ 1);
    Opener opener(key);
    std::string text;
    EXPECT_FALSE(opener.feed(record, text).isOk());
    EXPECT_EQ(text, "");
  }
}

} // namespace
} // namespace braid
