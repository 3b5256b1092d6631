//===- tests/runtime/measurement_cache_test.cpp - saved, shared, damaged and replaced files ---===//

#include "runtime/tune/measurement_cache.h"

#include "runtime/tune/measurement_file.h"
#include "tests/support/temporary_folder.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace braid {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kMachine = "NVIDIA H200, driver 13.0, cuBLASLt 13.1.0";

class MeasurementCacheTest : public testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> path;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("braid-cache", path));
    root = path.str().str();
    folder = root + "/below/braid";
  }
  void TearDown() override {
    std::filesystem::permissions(root, std::filesystem::perms::owner_all);
    llvm::sys::fs::remove_directories(root);
  }

  MeasurementCache open(const std::string &machine = kMachine) {
    return MeasurementCache(folder, machine,
                            [this](const std::string &line) { lines.push_back(line); });
  }
  /// Saves a file with the entry "k" -> "v" and returns its contents.
  std::string saved() {
    MeasurementCache cache = open();
    cache.set("k", "v");
    cache.save();
    return cache.path();
  }
  static void put(const std::string &path, const std::string &text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string contents(const std::string &path) {
    auto file = llvm::MemoryBuffer::getFile(path);
    return file ? (*file)->getBuffer().str() : "unreadable";
  }

  std::string root, folder;
  std::vector<std::string> lines; ///< received warnings
};

TEST_F(MeasurementCacheTest, WhatWasSavedIsFoundByTheNextOne) {
  {
    MeasurementCache cache = open();
    EXPECT_EQ(cache.find("a"), std::nullopt);
    cache.set("a", "1");
    cache.set("b\t\\", "two\nlines\\n");
    cache.set("a", "3");
    EXPECT_EQ(cache.find("a"), "3");
    EXPECT_FALSE(std::filesystem::exists(cache.path()));
    cache.save();
  }
  MeasurementCache cache = open();
  EXPECT_EQ(cache.find("a"), "3");
  EXPECT_EQ(cache.find("b\t\\"), "two\nlines\\n");
  EXPECT_EQ(cache.find("c"), std::nullopt);
  EXPECT_THAT(contents(cache.path()), HasSubstr(kMachine));
  EXPECT_THAT(lines, IsEmpty());
}

TEST_F(MeasurementCacheTest, SavingAddsToWhatOthersHaveSaved) {
  MeasurementCache first = open(), second = open();
  first.set("first", "1");
  first.set("both", "1");
  second.set("second", "2");
  second.set("both", "2");
  first.save();
  second.save();
  EXPECT_EQ(second.find("first"), "1");
  MeasurementCache third = open();
  EXPECT_EQ(third.find("first"), "1");
  EXPECT_EQ(third.find("second"), "2");
  EXPECT_EQ(third.find("both"), "2") << "the later one counts";
  EXPECT_THAT(lines, IsEmpty());
}

// -- Unusable files cause one warning and are replaced. --

struct BadFile {
  const char *name;
  std::string text;
  const char *why;
};

std::vector<BadFile> badFiles() {
  const std::string good = MeasurementFile{kMachine, {{"k", "v"}}}.encode();
  std::string other = good;
  other.replace(good.find(": 2"), 3, ": 1");
  const char *unknown = "it was written by another version of Braid";
  return {{"empty", "", "is corrupt"},
          {"zeros", std::string(4096, '\0'), "is corrupt"},
          {"another version", other, unknown},
          {"another kind", "[2]", unknown},
          {"cut between lines", good.substr(0, good.rfind("}")), "is corrupt"},
          {"twice", good + good, "is corrupt"},
          {"another machine", MeasurementFile{"NVIDIA H100", {}}.encode(),
           "its measurements are from a different machine (NVIDIA H100)"},
          {"a machine that cannot be printed", MeasurementFile{"\033[31m", {}}.encode(),
           "are from a different machine (\\x1b[31m"}};
}

TEST_F(MeasurementCacheTest, FilesOfNoUseAreIgnoredWithOneLineAndReplaced) {
  const std::string path = saved();
  for (const BadFile &bad : badFiles()) {
    SCOPED_TRACE(bad.name);
    put(path, bad.text);
    lines.clear();
    MeasurementCache cache = open();
    EXPECT_EQ(cache.find("k"), std::nullopt);
    cache.set("new", "1");
    cache.save();
    EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr(path), HasSubstr(bad.why))));
    lines.clear();
    EXPECT_EQ(open().find("new"), "1");
    EXPECT_THAT(lines, IsEmpty());
  }
}

TEST_F(MeasurementCacheTest, EveryPrefixIsNoticed) {
  const std::string good = MeasurementFile{kMachine, {{"k", "v"}, {"l", "w"}}}.encode();
  EXPECT_TRUE(MeasurementFile::decode(good));
  for (size_t i = 0; i + 1 < good.size(); ++i) // the last character is a newline
    EXPECT_FALSE(MeasurementFile::decode(good.substr(0, i))) << i;
}

TEST_F(MeasurementCacheTest, WhatIsNoFileIsIgnored) {
  const std::string path = saved();
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); // no process ever writes to this pipe
  MeasurementCache cache = open();
  EXPECT_THAT(lines, ElementsAre(HasSubstr("it is not a regular file")));
  cache.set("new", "1");
  cache.save();
  EXPECT_EQ(open().find("new"), "1");
}

// -- Folders that are not writable. --

TEST_F(MeasurementCacheTest, AFolderThatCannotBeMadeIsOneLine) {
  put(root + "/below", "a file");
  MeasurementCache cache = open();
  EXPECT_THAT(lines, IsEmpty());
  for (const char *key : {"a", "b"}) {
    cache.set(key, "1");
    cache.save();
  }
  EXPECT_EQ(cache.find("a"), "1");
  EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("cannot be cached"), HasSubstr(folder))));
}

TEST_F(MeasurementCacheTest, AFullDiskKeepsTheOldFile) {
  saved();
  MeasurementCache cache = open();
  cache.set("new", "1");
  {
    const FullDisk full;
    cache.save();
  }
  EXPECT_THAT(lines, ElementsAre(HasSubstr("cannot be cached")));
  EXPECT_EQ(open().find("k"), "v");
}

TEST_F(MeasurementCacheTest, AJobThatHoldsTheLockIsWaitedForNotForEver) {
  const std::string path = saved();
  FILE *lock = std::fopen((path + ".lock").c_str(), "r+");
  ASSERT_EQ(flock(fileno(lock), LOCK_EX), 0);
  MeasurementCache cache = open();
  cache.set("new", "1");
  cache.save();
  EXPECT_THAT(lines, ElementsAre(HasSubstr("another job has held")));
  std::fclose(lock);
  cache.save(); // saves the remaining entries
  EXPECT_EQ(open().find("new"), "1");
}

TEST_F(MeasurementCacheTest, WithoutAFolderMeasurementsAreInMemory) {
  MeasurementCache cache("", kMachine, [this](const std::string &line) { lines.push_back(line); });
  cache.set("a", "1");
  cache.save();
  EXPECT_EQ(cache.find("a"), "1");
  EXPECT_EQ(cache.path(), "");
  EXPECT_THAT(lines, IsEmpty());
}

// -- Concurrent writers. --

constexpr int kWriters = 4, kEntries = 40;

/// Saves entries one after another, using a new cache object for each.
void writeEntries(const std::string &folder, int writer, const MeasurementCache::Warn &warn) {
  for (int entry = 0; entry < kEntries; ++entry) {
    MeasurementCache cache(folder, kMachine, warn);
    cache.set("writer " + std::to_string(writer) + " entry " + std::to_string(entry), "value");
    cache.save();
  }
}

size_t countEntries(const MeasurementCache &cache) {
  size_t count = 0;
  for (int writer = 0; writer < kWriters; ++writer)
    for (int entry = 0; entry < kEntries; ++entry)
      count += cache.find("writer " + std::to_string(writer) + " entry " + std::to_string(entry))
                   .has_value();
  return count;
}

TEST_F(MeasurementCacheTest, ProcessesLoseNothing) {
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    pid_t child = fork();
    if (child == 0) {
      bool hasWarned = false;
      writeEntries(folder, writer, [&](const std::string &) { hasWarned = true; });
      _exit(hasWarned ? 1 : 0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(countEntries(open()), size_t(kWriters * kEntries));
  EXPECT_THAT(lines, IsEmpty());
}

TEST_F(MeasurementCacheTest, WritersThatAreKilledLeaveAFileThatIsWhole) {
  for (int round = 0; round < 20; ++round) {
    pid_t child = fork();
    if (child == 0)
      for (int entry = 0;; ++entry)
        writeEntries(folder, entry, nullptr);
    usleep(static_cast<useconds_t>(1000 + 700 * round));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    saved();
    EXPECT_EQ(open().find("k"), "v");
  }
  EXPECT_THAT(lines, IsEmpty());
}

// -- The folder. --

TEST(MeasurementFolder, ComesFromTheEnvironment) {
  auto folder = [](const std::map<std::string, std::string> &variables) {
    return measurementFolder([&variables](const std::string &name) {
      auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_EQ(folder({{"HOME", "/users/a"}}), "/users/a/.cache/braid");
  EXPECT_EQ(folder({{"HOME", "/users/a"}, {"XDG_CACHE_HOME", "/x"}}), "/x/braid");
  EXPECT_EQ(folder({{"HOME", "/users/a"}, {"XDG_CACHE_HOME", "x"}}), "/users/a/.cache/braid");
  EXPECT_EQ(folder({{"XDG_CACHE_HOME", "/x"}, {"BRAID_CACHE_DIR", "here"}}), "here");
  EXPECT_EQ(folder({{"HOME", "/users/a"}, {"BRAID_CACHE_DIR", ""}}), "/users/a/.cache/braid");
  EXPECT_EQ(folder({{"HOME", "/users/a"}, {"BRAID_CACHE_DIR", "none"}}), "");
  EXPECT_EQ(folder({{"HOME", ""}}), "");
  EXPECT_EQ(folder({}), "");
}

} // namespace
} // namespace braid
