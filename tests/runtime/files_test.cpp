//===- tests/runtime/files_test.cpp - files are read and written as a whole -------------------===//

#include "runtime/files.h"

#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

namespace braid {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class Files : public testing::Test {
protected:
  std::string path(const std::string &name) const { return folder.path() + "/" + name; }
  static void put(const std::string &path, const std::string &text) { std::ofstream(path) << text; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder.path()))
      names.push_back(entry.path().filename());
    return names;
  }
  static std::string textOf(const std::string &path) {
    Result<std::string> text = readFile(path, 1 << 20);
    return text ? *text : text.status().message();
  }
  TemporaryFolder folder;
};

TEST_F(Files, AreMadeAndReplaced) {
  ASSERT_TRUE(writeFile(path("a"), "one").isOk());
  chmod(path("a").c_str(), 0640);
  ASSERT_TRUE(writeFile(path("a"), "two").isOk());
  EXPECT_EQ(textOf(path("a")), "two");
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms(0640));
  EXPECT_THAT(names(), UnorderedElementsAre("a"));
}

TEST_F(Files, KeepTheOldOneOnAFullDisk) {
  put(path("a"), "old");
  {
    const FullDisk full;
    EXPECT_EQ(writeFile(path("a"), std::string(1000, 'x')).code(), StatusCode::Unsupported);
  }
  EXPECT_EQ(textOf(path("a")), "old");
  EXPECT_THAT(names(), UnorderedElementsAre("a"));
}

TEST_F(Files, AreWrittenThroughALinkOfTheirName) {
  put(path("target"), "old");
  fs::create_symlink(path("target"), path("link"));
  ASSERT_TRUE(writeFile(path("link"), "new").isOk());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(textOf(path("target")), "new");
  fs::create_symlink("later", path("dangling"));
  ASSERT_TRUE(writeFile(path("dangling"), "new").isOk());
  EXPECT_TRUE(fs::is_symlink(path("dangling")));
  EXPECT_EQ(textOf(path("later")), "new");
}

TEST_F(Files, TakeThePlaceOfALinkWhereThatIsAskedFor) {
  put(path("target"), "old");
  fs::create_symlink(path("target"), path("link"));
  ASSERT_TRUE(replaceFile(path("link"), "new", 0600).isOk());
  EXPECT_FALSE(fs::is_symlink(path("link")));
  EXPECT_EQ(fs::status(path("link")).permissions(), fs::perms(0600));
  EXPECT_EQ(textOf(path("target")), "old");
}

TEST_F(Files, HaveTheModeThatIsAskedForWhateverTheOldOneHad) {
  put(path("a"), "old");
  chmod(path("a").c_str(), 0666);
  ASSERT_TRUE(replaceFile(path("a"), "new", 0600).isOk());
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms(0600));
}

TEST_F(Files, TakeOverWhoMayReadAndNothingElse) {
  put(path("a"), "old");
  chmod(path("a").c_str(), 06755);
  ASSERT_TRUE(writeFile(path("a"), "new").isOk());
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms(0755));
}

TEST_F(Files, TakeNoModeFromAnotherUsersFile) {
  put(path("a"), "old");
  chmod(path("a").c_str(), 0777);
  if (chown(path("a").c_str(), geteuid() + 1, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root can make a file another user's";
  const mode_t mask = umask(027);
  ASSERT_TRUE(writeFile(path("a"), "new").isOk());
  umask(mask);
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms(0640));
}

TEST_F(Files, FollowNoLinkThatSomebodyHasPlanted) {
  put(path("victim"), "precious");
  for (int attempt = 0; attempt < 3; ++attempt)
    fs::create_symlink(path("victim"),
                       path(".braid-" + std::to_string(getpid()) + "-" + std::to_string(attempt)));
  put(path("a"), "old");
  ASSERT_TRUE(writeFile(path("a"), "new").isOk());
  EXPECT_EQ(textOf(path("a")), "new");
  EXPECT_EQ(textOf(path("victim")), "precious");
}

TEST_F(Files, OfAnotherKindAreWrittenInPlace) {
  EXPECT_THAT(writeFile("/dev/full", "x").message(), HasSubstr("No space left on device"));
  EXPECT_TRUE(writeFile("/dev/null", "x").isOk());
  EXPECT_TRUE(fs::is_character_file("/dev/null") && fs::is_character_file("/dev/full"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::string text;
  std::thread reader([&] { text = textOf(path("pipe")); });
  EXPECT_TRUE(writeFile(path("pipe"), "through").isOk());
  reader.join();
  EXPECT_EQ(text, "through");
  EXPECT_FALSE(isReplacedAsAWhole(path("pipe")));
  EXPECT_TRUE(isReplacedAsAWhole(path("none")));
}

TEST_F(Files, ThatCannotBeWrittenAreKnownBefore) {
  EXPECT_TRUE(checkWritable(path("a")).isOk());
  EXPECT_TRUE(checkWritable("-").isOk());
  EXPECT_THAT(checkWritable(folder.path()).message(), HasSubstr("Is a directory"));
  EXPECT_THAT(checkWritable(path("no/such/a")).message(), HasSubstr("No such file or directory"));
  EXPECT_TRUE(names().empty());
}

TEST_F(Files, AreOneWhateverLeadsToThem) {
  ASSERT_TRUE(writeFile(path("a"), "text").isOk());
  ASSERT_TRUE(writeFile(path("b"), "text").isOk());
  ASSERT_EQ(symlink(path("a").c_str(), path("link").c_str()), 0);
  ASSERT_EQ(::link(path("a").c_str(), path("hard").c_str()), 0);
  for (const char *name : {"a", "./a", "link", "hard"})
    EXPECT_TRUE(areOneFile(path(name), path("a"))) << name;
  for (const char *name : {"b", "none"})
    EXPECT_FALSE(areOneFile(path(name), path("a"))) << name;
  EXPECT_FALSE(areOneFile("/dev/null", "/dev/null")) << "nothing is replaced there";
  EXPECT_FALSE(areOneFile("-", "-"));
  EXPECT_FALSE(areOneFile("", ""));
}

TEST_F(Files, AreOneBeforeTheyAreThere) {
  ASSERT_EQ(symlink("new", path("link").c_str()), 0);
  for (const std::string &name :
       {path("new"), path("./new"), path("link"), folder.path() + "//new"})
    EXPECT_TRUE(areOneFile(name, path("new"))) << name;
  EXPECT_FALSE(areOneFile(path("newer"), path("new")));
}

TEST_F(Files, AreReadUpToALimit) {
  put(path("a"), std::string(200000, 'x'));
  EXPECT_EQ(readFile(path("a"), 200000)->size(), 200000u);
  EXPECT_THAT(readFile(path("a"), 199999).status().message(),
              HasSubstr("exceeds the limit of 199999 bytes"));
  EXPECT_THAT(readFile("/dev/zero", 1 << 20).status().message(), HasSubstr("limit of 1048576"));
  EXPECT_THAT(readFile(folder.path(), 10).status().message(), HasSubstr("Is a directory"));
  EXPECT_EQ(readFile(path("none"), 10).status().code(), StatusCode::BadInput);
  EXPECT_THAT(readFile("none\x1b[2J", 10).status().message(), HasSubstr("'none\\x1b[2J'"));
}

} // namespace
} // namespace braid
