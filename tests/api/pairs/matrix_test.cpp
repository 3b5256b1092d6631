//===- tests/api/pairs/matrix_test.cpp - reports as the terminal shows them -------------------===//

#include "api/pairs/matrix.h"

#include "api/pairs/pair_figures.h"
#include "api/pairs/pair_names.h"
#include "tests/api/pairs/random_report.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

namespace braid::pairs_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PairReport nvlinkMachine(size_t devices) {
  std::mt19937 random(static_cast<unsigned>(devices));
  return healthyReport({.devices = devices, .island = devices, .noise = 0.01}, random);
}

std::string shown(const PairReport &report, const MatrixOptions &options = {}) {
  const std::vector<Verdict> verdicts = judge(report);
  return matrixText(report, verdicts, recommend(report, verdicts), options);
}

llvm::SmallVector<llvm::StringRef> linesOf(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  return lines;
}

TEST(Matrix, EightDevicesFitEightyColumns) {
  PairReport report = nvlinkMachine(8);
  breakSome(report);
  const std::string text = shown(report, {.allPaths = true});
  for (llvm::StringRef line : linesOf(text)) {
    EXPECT_LE(line.size(), 80u) << line.str();
    EXPECT_EQ(line, line.rtrim()) << line.str();
  }
  EXPECT_EQ(text.back(), '\n');
}

TEST(Matrix, ShowsFiguresAndWords) {
  PairReport report = nvlinkMachine(8);
  breakSome(report);
  on(rowOf(report, 0, 5), Path::PutEngine).points.back().GBps = 391;
  const std::string text = shown(report);
  for (const char *part :
       {"8 devices of machine, cuda", "  0  NVIDIA H200               0000:10:00.0  NUMA 0",
        "NV18!", "NV: NVLink, directly or by a switch; !: no peer access",
        "bandwidth in GB/s at 64 MiB, by the fastest path of each pair", "     391", "    hung",
        "   crash", "* fails by another path",
        "latency in us at the smallest size, by the quickest path of each pair",
        "  fault  transfers between devices 1 and 2 hang\n"
        "         cause: rank 1 was killed by signal 9",
        "what to do\n  leave out device 6: it slows down all others"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("the destination reads")));
}

TEST(Matrix, AHealthyMachineHasNoVerdicts) {
  EXPECT_THAT(shown(nvlinkMachine(2)),
              HasSubstr("verdicts\n  none: every pair is as fast as its like\n"));
  PairReport small = nvlinkMachine(2);
  for (PairRow &row : small.rows)
    for (PathReport &path : row.paths)
      path.points.resize(1);
  EXPECT_THAT(shown(small),
              HasSubstr("none: every pair answers as quickly as its like; bandwidth"));
  PairReport interrupted = nvlinkMachine(2);
  interrupted.rows.back().paths = {};
  EXPECT_THAT(shown(interrupted),
              HasSubstr("none: every pair that was measured is as fast as its like\n"));
}

TEST(Matrix, ShowsEveryPathIfAsked) {
  PairReport report = nvlinkMachine(4);
  for (PairRow &row : report.rows) {
    on(row, Path::Messages) = {};
    on(row, Path::PutKernel) = {};
    on(row, Path::PutKernel).outcome = PathOutcome::Unavailable;
    on(row, Path::PutKernel).reason = "no kernels";
  }
  const std::string text = shown(report, {.allPaths = true});
  EXPECT_THAT(text, HasSubstr("by put-engine\n    the source writes, by a copy engine\n"));
  EXPECT_THAT(text, HasSubstr("by host\n    through memory of the host\n"));
  EXPECT_THAT(text, HasSubstr("     n/a"));
  EXPECT_THAT(text, Not(HasSubstr("by messages\n")));
}

TEST(Matrix, ColoursChangeNoText) {
  PairReport report = nvlinkMachine(8);
  breakSome(report);
  const std::string coloured = shown(report, {.colours = true});
  EXPECT_THAT(coloured, HasSubstr("\x1b[48;5;160;38;5;231m   hung\x1b[0m"));
  EXPECT_THAT(coloured, HasSubstr("\x1b[48;5;184;38;5;16m"));
  EXPECT_EQ(std::regex_replace(coloured, std::regex("\x1b\\[[0-9;]*m"), ""), shown(report));
}

TEST(Matrix, ManyDevicesAreASummary) {
  PairReport report = nvlinkMachine(24);
  breakSome(report);
  const std::string text = shown(report);
  EXPECT_LT(linesOf(text).size(), 60u);
  for (const char *part : {"  24 times NVIDIA H200", "nvlink (NVLink, directly or by a switch)",
                           "ordered pairs, bandwidth at 64 MiB in GB/s: median 37", "  slowest: ",
                           "to 6: 7", "  hung: 2 ordered pairs", "  crashed: 1 ordered pair\n"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(Matrix, NothingIsShownOfNothing) {
  EXPECT_THAT(shown({}), HasSubstr("0 devices of this machine"));
  PairReport report;
  report.devices.resize(2);
  report.rows = {{0, 1, {}, {}}};
  EXPECT_THAT(shown(report), HasSubstr("   0       -       ?\n"));
}

TEST(PairNames, SizesAndFigures) {
  EXPECT_EQ(sizeText(0), "0 B");
  EXPECT_EQ(sizeText(4), "4 B");
  EXPECT_EQ(sizeText(1 << 16), "64 KiB");
  EXPECT_EQ(sizeText(3 << 19), "1.5 MiB");
  EXPECT_EQ(sizeText(int64_t(1) << 30), "1 GiB");
  EXPECT_EQ(figureText(391.6), "392");
  EXPECT_EQ(figureText(99.96), "100");
  EXPECT_EQ(figureText(25.44), "25.4");
  EXPECT_EQ(figureText(0.808), "0.81");
  for (Path path : kAllPaths)
    EXPECT_EQ(pathFromName(name(path)), path);
  EXPECT_EQ(pathFromName("pigeon"), std::nullopt);
}

} // namespace
} // namespace braid::pairs_test
