//===- api/pairs/heat_map_svg.cpp - a report about pairs as a picture -------------------------===//

#include "api/pairs/heat_drawing.h"
#include "api/pairs/heat_map.h"
#include "api/pairs/pair_figures.h"
#include "api/pairs/pair_names.h"
#include "api/pairs/verdict_words.h"
#include "api/text/markup.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace braid {
namespace {

constexpr int kMargin = 24, kTop = 84, kLineHeight = 18, kLeastWidth = 520;
// Which the scale does not have.
constexpr const char *kFailedColour = "#c2185b", *kSlowColour = "#d1410c";

// By PathOutcome: in a cell with room for a word, and with room for a letter.
constexpr const char *kCellWords[] = {"?", "?", "n/a", "wrong", "crash", "hung"};
constexpr const char *kCellLetters[] = {"", "", "", "W", "C", "H"};

int cellSizeOf(size_t devices) {
  return devices <= 10 ? 56 : devices <= 16 ? 42 : devices <= 32 ? 22 : 13;
}

class HeatPicture {
public:
  HeatPicture(const PairReport &report, const std::vector<Verdict> &verdicts)
      : report_(report), verdicts_(verdicts), table_(report), cell_(cellSizeOf(table_.devices())) {
    for (const PairRow &row : report.rows)
      if (const double rate = bestBandwidth(row); rate > 0) {
        fastest_ = std::max(fastest_, rate);
        slowest_ = slowest_ > 0 ? std::min(slowest_, rate) : rate;
      }
    // Figures that are far apart are shown by their logarithms, so that small ones differ, too.
    constexpr double kFarApart = 20;
    isLog_ = fastest_ > kFarApart * slowest_;
  }

  std::string svg() {
    writeTitle();
    writeCells();
    writeScale();
    writeDevices();
    const std::string head = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" role=\"img\" font-family=\"system-ui, sans-serif\" "
        "font-size=\"12\" fill=\"#222\">\n<title>{2}</title>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        width(), bottom_ + kMargin, markupText("Bandwidth between " + machineText(report_)));
    return head + out_ + "</svg>\n";
  }

private:
  template <class... Args> void add(fmt::format_string<Args...> format, Args &&...args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }
  int side() const { return cell_ * static_cast<int>(table_.devices()); }
  int left() const { return kMargin + 44; }
  int width() const { return std::max(left() + side() + kMargin, kLeastWidth); }
  double shareOf(double rate) const {
    if (rate <= 0)
      return 0;
    return isLog_ ? std::log(rate / slowest_) / std::log(fastest_ / slowest_) : rate / fastest_;
  }
  bool isSlow(const PairRow &row) const {
    return llvm::any_of(verdicts_, [&](const Verdict &verdict) {
      return severityOf(verdict.kind) == VerdictSeverity::Slow && isAbout(verdict, row);
    });
  }
  bool hasWords() const { return cell_ >= 40; }

  void text(int x, int y, const std::string &content, const std::string &attributes = "") {
    add("<text x=\"{}\" y=\"{}\"{}>{}</text>", x, y, attributes, markupText(content));
  }

  void writeTitle() {
    text(kMargin, 28, "Bandwidth between devices, GB/s", " font-size=\"18\" font-weight=\"600\"");
    text(kMargin, 46, machineText(report_));
    text(left(), kTop - 22, "to", " fill=\"#666\"");
    text(left() - 6, kTop - 6, "from", " fill=\"#666\" text-anchor=\"end\"");
  }

  void writeCells() {
    const auto count = static_cast<int>(table_.devices());
    // Numbers that do not touch each other.
    const int step = cell_ >= 20 ? 1 : 4;
    for (int i = 0; i < count; i += step) {
      const int middle = i * cell_ + cell_ / 2;
      text(left() + middle, kTop - 6, std::to_string(i), " text-anchor=\"middle\"");
      text(left() - 6, kTop + middle + 4, std::to_string(i), " text-anchor=\"end\"");
    }
    for (int source = 0; source < count; ++source)
      for (int destination = 0; destination < count; ++destination)
        if (const PairRow *row =
                table_.row(static_cast<size_t>(source), static_cast<size_t>(destination)))
          writeCell(*row, left() + destination * cell_, kTop + source * cell_);
    bottom_ = kTop + side();
  }

  void writeCell(const PairRow &row, int x, int y) {
    const double rate = bestBandwidth(row), share = shareOf(rate);
    const bool isFailed = isFault(worstOutcome(row));
    const std::string fill = isFailed ? kFailedColour : rate > 0 ? heatColour(share) : "#e6e6e6";
    const int inner = cell_ - (cell_ >= 20 ? 2 : 1);
    add("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{}</title></rect>",
        x, y, inner, inner, fill, markupText(hintOf(row)));
    if (!isFailed && isSlow(row))
      frame(x, y, inner, hasWords() ? 3 : 2);
    const std::string words = wordsOf(row);
    const char *colour = isFailed ? "#fff" : rate > 0 ? textColourOn(share) : "#222";
    if (!words.empty())
      text(x + inner / 2, y + inner / 2 + 4, words,
           fmt::format(" text-anchor=\"middle\" fill=\"{}\" font-size=\"{}\" "
                       "pointer-events=\"none\"",
                       colour, hasWords() ? 12 : cell_ - 3));
  }

  static std::string hintOf(const PairRow &row) {
    std::string hint = fmt::format("device {} to device {}: ", row.source, row.destination);
    if (isFault(worstOutcome(row)))
      return hint + name(worstOutcome(row)).str();
    const std::optional<Path> path = fastestPath(row);
    return hint +
           (path ? fmt::format("{} GB/s by {}", figureText(bestBandwidth(row)), name(*path).str())
                 : "not measured");
  }

  std::string wordsOf(const PairRow &row) const {
    const double rate = bestBandwidth(row);
    const bool isFailed = isFault(worstOutcome(row));
    const auto outcome =
        static_cast<size_t>(isFailed ? worstOutcome(row) : PathOutcome::NotMeasured);
    if (!hasWords())
      return kCellLetters[outcome];
    return isFailed || rate <= 0 ? kCellWords[outcome] : figureText(rate);
  }

  /// Inside of the square at that place.
  void frame(int x, int y, int side, int line) {
    add("<rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{2}\" fill=\"none\" stroke=\"{3}\" "
        "stroke-width=\"{4}\" pointer-events=\"none\"/>",
        x + line / 2.0, y + line / 2.0, side - line, kSlowColour, line);
  }

  void writeScale() {
    constexpr int kSteps = 40, kStepWidth = 5;
    const int y = bottom_ + 22;
    for (int i = 0; i < kSteps; ++i)
      add("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"12\" fill=\"{}\"/>",
          left() + i * kStepWidth, y, kStepWidth, heatColour((i + 0.5) / kSteps));
    text(left(), y + 26, isLog_ ? figureText(slowest_) : "0");
    text(left() + kSteps * kStepWidth, y + 26,
         figureText(fastest_) + (isLog_ ? " GB/s, log" : " GB/s"), " text-anchor=\"middle\"");
    const int mark = left() + kSteps * kStepWidth + 48;
    add("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>", mark, y, kFailedColour);
    text(mark + 18, y + 11, "hung, crashed or wrong data");
    frame(mark, y + 18, 12, 3);
    text(mark + 18, y + 29, "slow by a verdict");
    bottom_ = y + 44;
  }

  void writeDevices() {
    constexpr size_t kMostNamed = 16, kMostVerdicts = 12;
    if (table_.devices() <= kMostNamed)
      for (size_t i = 0; i < table_.devices(); ++i)
        line(fmt::format("device {}: {} {}", i, report_.devices[i].name, report_.devices[i].pci));
    bottom_ += kLineHeight / 2;
    for (size_t i = 0; i < std::min(verdicts_.size(), kMostVerdicts); ++i)
      line(fmt::format("{}: {}", name(severityOf(verdicts_[i].kind)).str(), verdicts_[i].sentence));
    if (verdicts_.size() > kMostVerdicts)
      line(fmt::format("and {} more", verdicts_.size() - kMostVerdicts));
    if (verdicts_.empty())
      line("no verdicts: " + wordsForNone(report_));
  }

  /// Broken where there is no more room; 7 is the width of most letters.
  void line(const std::string &content) {
    const auto most = static_cast<size_t>((width() - 2 * kMargin) / 7);
    std::string rest = content;
    for (int indent = 0; !rest.empty(); indent = 16) {
      size_t end = rest.size() <= most ? rest.size() : rest.rfind(' ', most);
      end = end == 0 || end == std::string::npos ? std::min(most, rest.size()) : end;
      bottom_ += kLineHeight;
      text(kMargin + indent, bottom_, rest.substr(0, end));
      rest.erase(0, rest.find_first_not_of(' ', end));
    }
  }

  const PairReport &report_;
  const std::vector<Verdict> &verdicts_;
  PairTable table_;
  int cell_;
  double fastest_ = 0, slowest_ = 0;
  bool isLog_ = false;
  int bottom_ = 0;
  std::string out_;
};

} // namespace

std::string heatMapSvg(const PairReport &report, const std::vector<Verdict> &verdicts) {
  return HeatPicture(report, verdicts).svg();
}

} // namespace braid
