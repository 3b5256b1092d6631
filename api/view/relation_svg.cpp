//===- api/view/relation_svg.cpp - who waits for whom, and what nothing orders --------------===//
//
// A box for each mark, one below the other. In a circle of waits an arrow leads from each to the
// next, and around the left side from the last to the first. Of two that nothing orders, the arrow
// leads from the one that leaves data stale, if it comes first, to the other one.
//
//===----------------------------------------------------------------------------------------===//

#include "api/text/markup.h"
#include "api/view/page.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace braid::view {
namespace {

constexpr double kWidth = 920, kLeft = 44, kBox = 46, kGap = 34, kMargin = 8;
/// Of a line, and of what is waited for, behind which there is more. The list above the figure has
/// all of it.
constexpr size_t kMostLetters = 118, kMostWaited = 86;
constexpr size_t kMostBoxes = 12, kFirstBoxes = 8;

/// At most so many letters of UTF-8, with dots for the rest.
std::string cutText(const std::string &text, size_t most) {
  size_t letters = 0, at = 0;
  for (; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
    if (begins && ++letters > most)
      return text.substr(0, at) + "...";
  }
  return text;
}

std::string words(const char *kind, double x, double y, const std::string &text) {
  return fmt::format("<text class=\"{}\" x=\"{:g}\" y=\"{:g}\">{}</text>\n", kind, x, y,
                     markupText(cutText(text, kMostLetters)));
}

/// A triangle whose point is at (x, y); `dx` and `dy` say where it points.
std::string tip(double x, double y, int dx, int dy) {
  constexpr double kLong = 9, kWide = 5;
  return fmt::format("<path class=\"tip\" d=\"M{:g} {:g}L{:g} {:g}L{:g} {:g}Z\"/>\n", x, y,
                     x - kLong * dx - kWide * dy, y - kLong * dy - kWide * dx,
                     x - kLong * dx + kWide * dy, y - kLong * dy + kWide * dx);
}

double topOf(size_t row) { return kMargin + static_cast<double>(row) * (kBox + kGap); }

/// The name in two lines: where it runs, and what it is.
std::string box(size_t row, size_t number, const Mark &mark) {
  const double top = topOf(row), middle = top + kBox / 2;
  const size_t colon = mark.name.find(": ");
  const std::string where = mark.name.substr(0, colon),
                    what = colon == std::string::npos ? "" : mark.name.substr(colon + 2);
  return fmt::format("<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" rx=\"6\"/>\n"
                     "<circle cx=\"{:g}\" cy=\"{:g}\" r=\"11\"/>\n",
                     kLeft, top, kWidth - kLeft - kMargin, kBox, kLeft + 22, middle) +
         words("number", kLeft + 22, middle + 5, std::to_string(number)) +
         words("soft", kLeft + 44, top + 18, where) + words("what", kLeft + 44, top + 37, what);
}

/// Between two rows, with its words beside it.
std::string arrow(size_t row, bool isDown, const std::string &text) {
  const double x = kLeft + 22, above = topOf(row) + kBox, below = topOf(row + 1);
  const double from = isDown ? above : below, to = isDown ? below : above;
  return fmt::format("<path d=\"M{:g} {:g}V{:g}\"/>\n", x, from, isDown ? to - 8 : to + 8) +
         tip(x, to, 0, isDown ? 1 : -1) + words("arrow", x + 22, (above + below) / 2 + 5, text);
}

/// Around the left side, from the last row to the first; its words are below the last.
std::string backToFirst(size_t last, const std::string &text) {
  const double from = topOf(last) + kBox, under = from + kGap / 2, to = topOf(0) + kBox / 2;
  return fmt::format("<path d=\"M{0:g} {1:g}V{2:g}Q{0:g} {3:g} {4:g} {3:g}H24Q14 {3:g} 14 {2:g}"
                     "V{5:g}Q14 {6:g} 24 {6:g}H{7:g}\"/>\n",
                     kLeft + 22, from, under - 10, under, kLeft + 12, to + 10, to, kLeft - 8) +
         tip(kLeft, to, 1, 0) + words("arrow", kLeft + 44, under + 5, text);
}

/// Which marks have a box: of many, the first and the last.
std::vector<size_t> shownOf(size_t marks) {
  std::vector<size_t> shown;
  for (size_t i = 0; i < marks; ++i)
    if (marks <= kMostBoxes || i < kFirstBoxes || i >= marks - (kMostBoxes - kFirstBoxes))
      shown.push_back(i);
  return shown;
}

std::string waitOf(const Mark &mark, size_t next) {
  return fmt::format("waits for {}, behind {}", cutText(mark.arrow, kMostWaited), next);
}

std::string circle(const Page &page, llvm::ArrayRef<size_t> shown) {
  std::string svg;
  for (size_t row = 0; row < shown.size(); ++row) {
    const size_t mark = shown[row];
    svg += box(row, mark + 1, page.marks[mark]);
    if (row + 1 == shown.size())
      svg += backToFirst(row, waitOf(page.marks[mark], 1));
    else if (const size_t left = shown[row + 1] - mark - 1; left > 0)
      svg += arrow(row, /*isDown=*/true, fmt::format("and so on, {} more", left));
    else
      svg += arrow(row, /*isDown=*/true, waitOf(page.marks[mark], mark + 2));
  }
  return svg;
}

std::string pair(const Page &page) {
  const bool isDown = page.marks[1].arrow.empty();
  return box(0, 1, page.marks[0]) + box(1, 2, page.marks[1]) +
         arrow(0, isDown, page.marks[isDown ? 0 : 1].arrow);
}

} // namespace

std::string relationSvg(const Page &page) {
  const bool isCircle = page.relation == Page::Relation::Circle;
  const bool hasArrow =
      llvm::any_of(page.marks, [](const Mark &mark) { return !mark.arrow.empty(); });
  if (page.relation == Page::Relation::None || !hasArrow)
    return "";
  const std::vector<size_t> shown = shownOf(page.marks.size());
  const double height = topOf(shown.size()) - (isCircle ? 0 : kGap);
  return fmt::format("<svg class=\"relation\" viewBox=\"0 0 {:g} {:g}\" role=\"img\" "
                     "aria-label=\"{}\">\n",
                     kWidth, height,
                     isCircle ? "Each waits for the next, and the last for the first"
                              : "The order of the two that leaves data stale") +
         (isCircle ? circle(page, shown) : pair(page)) + "</svg>\n";
}

} // namespace braid::view
