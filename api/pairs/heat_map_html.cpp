//===- api/pairs/heat_map_html.cpp - a report about pairs as a page ---------------------------===//

#include "api/pairs/heat_drawing.h"
#include "api/pairs/heat_map.h"
#include "api/pairs/heat_map_page.h"
#include "api/pairs/pair_figures.h"
#include "api/pairs/pair_names.h"
#include "api/pairs/verdict_words.h"
#include "api/text/markup.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cctype>
#include <cmath>
#include <map>

namespace braid {
namespace {

using PageJson = nlohmann::ordered_json;

/// What a person would write: a capital first, a full stop last.
std::string asSentence(std::string text) {
  if (!text.empty())
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return markupText(text) + ".";
}

/// Four digits, which is more than a page shows.
double fourDigits(double value) {
  if (!(value > 0) || !std::isfinite(value))
    return 0;
  const double unit = std::pow(10, 3 - std::floor(std::log10(value)));
  return std::isfinite(unit) && unit > 0 ? std::round(value * unit) / unit : value;
}

// -- Data. Short, because 64 devices have 4,032 pairs of six paths. --

PageJson wordsOf(llvm::ArrayRef<llvm::StringRef> words) {
  PageJson json = PageJson::array();
  for (llvm::StringRef word : words)
    json.push_back(word.str());
  return json;
}

/// Why a path has no figures, as one text.
std::string reasonOf(const PathReport &path) {
  if (!path.wrong)
    return path.reason;
  return fmt::format("{} in round {}, offset {}: expected {:#04x}, got {:#04x}{}",
                     sizeText(path.wrong->bytes), path.wrong->round, path.wrong->offset,
                     path.wrong->expected, path.wrong->got,
                     path.wrong->together ? ", while all pairs ran" : "");
}

class PageData {
public:
  explicit PageData(const PairReport &report) : report_(report) {
    for (const PairRow &row : report.rows)
      for (const PathReport &path : row.paths)
        for (const PathPoint &point : path.points)
          sizes_[point.bytes];
    size_t index = 0;
    for (auto &[bytes, place] : sizes_)
      place = index++;
  }

  PageJson json(const std::vector<Verdict> &verdicts) const {
    PageJson sizes = PageJson::array(), devices = PageJson::array(), rows = PageJson::array(),
             meanings = PageJson::array(), judged = PageJson::array();
    for (const auto &[bytes, place] : sizes_)
      sizes.push_back(bytes);
    for (const MachineDevice &device : report_.devices)
      devices.push_back({device.name, device.pci, device.numaNode});
    for (Path path : kAllPaths)
      meanings.push_back(meaning(path).str());
    for (const PairRow &row : report_.rows)
      rows.push_back(jsonOf(row));
    for (const Verdict &verdict : verdicts)
      judged.push_back(jsonOf(verdict));
    return {{"devices", devices},
            {"sizes", sizes},
            {"paths", wordsOf(pathNames())},
            {"meanings", meanings},
            {"links", wordsOf(linkClassNames())},
            {"outcomes", wordsOf(pathOutcomeNames())},
            {"rows", rows},
            {"verdicts", judged}};
  }

private:
  /// 0 for what nobody asked, else [outcome, reason, together, [size, us, GBps, size, ...]].
  PageJson jsonOf(const PathReport &path) const {
    if (path.outcome == PathOutcome::NotMeasured && path.reason.empty())
      return 0;
    PageJson points = PageJson::array();
    for (const PathPoint &point : path.points) {
      points.push_back(sizes_.at(point.bytes));
      points.push_back(fourDigits(point.latencyUs));
      points.push_back(fourDigits(point.GBps));
    }
    return {static_cast<int>(path.outcome), reasonOf(path), fourDigits(path.togetherGBps), points};
  }
  PageJson jsonOf(const PairRow &row) const {
    PageJson paths = PageJson::array();
    for (const PathReport &path : row.paths)
      paths.push_back(jsonOf(path));
    return {row.source,
            row.destination,
            static_cast<int>(row.link.kind),
            row.link.count,
            fourDigits(row.link.nominalGBps),
            row.link.noPeerAccess,
            paths};
  }
  /// [severity, scope, source, destination, both ways, device, flow, link, sentence]
  static PageJson jsonOf(const Verdict &verdict) {
    return {static_cast<int>(severityOf(verdict.kind)),
            static_cast<int>(verdict.scope),
            verdict.source,
            verdict.destination,
            verdict.bothWays ? 1 : 0,
            verdict.device,
            static_cast<int>(verdict.flow),
            static_cast<int>(verdict.link),
            verdict.sentence};
  }

  const PairReport &report_;
  std::map<int64_t, size_t> sizes_;
};

// -- Sentences. --

std::string verdictItem(const Verdict &verdict, size_t index) {
  const std::string word = name(severityOf(verdict.kind)).str();
  std::string item = fmt::format("<li class=\"{0}\"><span class=\"badge\">{0}</span> <span>{1}",
                                 word, asSentence(verdict.sentence));
  if (!verdict.cause.empty())
    item += fmt::format(" <span class=\"cause\">Cause: {}.</span>", markupText(verdict.cause));
  if (verdict.scope == VerdictScope::Pair || verdict.scope == VerdictScope::Device)
    item += fmt::format(" <button type=\"button\" class=\"show\" data-verdict=\"{}\">show</button>",
                        index);
  return item + "</span></li>\n";
}

std::string verdictSection(const PairReport &report, const std::vector<Verdict> &verdicts) {
  if (verdicts.empty())
    return "<p>None: " + wordsForNone(report) + ".</p>\n";
  std::string items;
  for (size_t i = 0; i < verdicts.size(); ++i)
    items += verdictItem(verdicts[i], i);
  return "<ul class=\"verdicts\">\n" + items + "</ul>\n";
}

std::string sentenceSection(const char *heading, const std::vector<std::string> &sentences) {
  if (sentences.empty())
    return "";
  std::string items;
  for (const std::string &sentence : sentences)
    items += "<li>" + asSentence(sentence) + "</li>\n";
  return fmt::format("<section><h2>{}</h2>\n<ul>\n{}</ul>\n</section>\n", heading, items);
}

std::string scaleStops() {
  std::string stops;
  constexpr int kStops = 9;
  for (int i = 0; i <= kStops; ++i)
    stops += (i ? "," : "") + heatColour(static_cast<double>(i) / kStops);
  return stops;
}

} // namespace

std::string heatMapHtml(const PairReport &report, const std::vector<Verdict> &verdicts,
                        const Recommendations &recommendations) {
  const std::string machine = markupText(machineText(report));
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<title>Pairs of {0}</title>\n<style>\n:root{{--scale:{1};--n:{2};--least:{3}px}}\n{4}"
      "</style>\n</head>\n<body>\n<header><h1>Transfers between devices</h1>\n<p>{0}</p></header>\n"
      "<main>\n<div class=\"words\">\n<section><h2>Verdicts</h2>\n",
      machine, scaleStops(), report.devices.size(), report.devices.size() <= 16 ? 36 : 11,
      kPageStyle);
  page += verdictSection(report, verdicts) + "</section>\n";
  page += sentenceSection("What to do", recommendations.sentences());
  page += sentenceSection("By design", remarks(report)) + "</div>\n";
  page += kPageMap;
  page += "</main>\n<script type=\"application/json\" id=\"data\">" +
          scriptText(PageData(report).json(verdicts)) + "</script>\n<script>\n" + kPageScript +
          "</script>\n</body>\n</html>\n";
  return page;
}

} // namespace braid
