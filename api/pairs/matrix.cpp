//===- api/pairs/matrix.cpp - a report about pairs as the terminal shows it -------------------===//

#include "api/pairs/matrix.h"

#include "api/pairs/pair_figures.h"
#include "api/pairs/pair_names.h"
#include "api/pairs/verdict_words.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace braid {
namespace {

constexpr size_t kMostInMatrix = 16;
constexpr size_t kLabelWidth = 4;

/// A background of 256 colours and the brightness of what stands on it, so that it can be read on
/// any terminal.
struct CellColour {
  int background;
  int foreground;
};
constexpr int kWhite = 231, kBlack = 16;
// From dark to light, as even as 256 colours are; also told apart without red and green.
constexpr CellColour kHeat[] = {{54, kWhite}, {61, kWhite}, {31, kWhite},
                                {36, kBlack}, {77, kBlack}, {184, kBlack}};
constexpr CellColour kFailed = {160, kWhite};

// By LinkClass.
constexpr const char *kShortLinks[] = {"own", "NV", "PCIe", "root", "numa", "sock", "?"};
// By PathOutcome: of a pair that has no figure.
constexpr const char *kShortOutcomes[] = {"?", "?", "n/a", "wrong", "crash", "hung"};
// By VerdictSeverity: basic colours that stand out from black and from white.
constexpr const char *kSeverityColours[] = {"\x1b[1;31m", "\x1b[1;35m", "\x1b[1m"};

/// Words of a line, so that none is longer than `columns`; later lines begin with `indent` blanks.
std::string wrapped(const std::string &text, size_t columns, size_t indent) {
  std::string out;
  size_t used = indent;
  for (llvm::StringRef rest = text; !rest.empty();) {
    auto [word, after] = rest.split(' ');
    rest = after;
    const bool isFirst = used == indent;
    if (!isFirst && used + 1 + word.size() > columns) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else if (!isFirst) {
      out += " ";
      ++used;
    }
    out += word.str();
    used += word.size();
  }
  return out;
}

/// What a cell shows, and where it stands from 0 to 1; nothing: it has no figure.
struct MatrixCell {
  std::string text;
  std::optional<double> heat;
  bool isFailed = false;
};

/// The outcome that says most about why there is no figure.
PathOutcome outcomeOf(const PairRow &row) {
  if (worstOutcome(row) != PathOutcome::Measured)
    return worstOutcome(row);
  const bool isRefused = llvm::any_of(
      row.paths, [](const PathReport &path) { return path.outcome == PathOutcome::Unavailable; });
  return isRefused ? PathOutcome::Unavailable : PathOutcome::NotMeasured;
}

class MatrixWriter {
public:
  MatrixWriter(const PairReport &report, const MatrixOptions &options)
      : report_(report), options_(options), table_(report), width_(table_.devices() <= 9 ? 8 : 6) {}

  std::string text(const std::vector<Verdict> &verdicts, const Recommendations &all) {
    writeDevices();
    if (table_.devices() > kMostInMatrix)
      writeSummary();
    else
      writeMatrices();
    writeVerdicts(verdicts);
    writeSentences("by design", remarks(report_));
    writeSentences("what to do", all.sentences());
    return std::move(out_);
  }

private:
  size_t devices() const { return table_.devices(); }
  void line(std::string text) {
    text.erase(text.find_last_not_of(' ') + 1);
    out_ += text + "\n";
  }
  std::string coloured(const char *colour, const std::string &text) const {
    return options_.colours ? colour + text + "\x1b[0m" : text;
  }
  void title(const std::string &text) {
    out_ += "\n";
    line(coloured("\x1b[1m", text));
  }

  void writeDevices() {
    line(coloured("\x1b[1m",
                  fmt::format("{} devices of {}, {}", devices(),
                              report_.hostname.empty() ? "this machine" : report_.hostname,
                              report_.backend)));
    std::map<std::string, size_t> counts;
    for (const MachineDevice &device : report_.devices)
      ++counts[device.name];
    if (devices() > kMostInMatrix) {
      for (const auto &[name, count] : counts)
        line(fmt::format("  {} times {}", count, name));
      return;
    }
    for (size_t i = 0; i < devices(); ++i) {
      const MachineDevice &device = report_.devices[i];
      const std::string node = device.numaNode < 0 ? "" : fmt::format("NUMA {}", device.numaNode);
      line(fmt::format("{:>{}}  {:<24}  {:<12}  {}", i, kLabelWidth - 1, device.name, device.pci,
                       node));
    }
  }

  // -- Matrices. --

  void writeMatrices() {
    if (devices() < 2)
      return;
    title("links");
    writeMatrix([&](const PairRow &row) { return linkCell(row); });
    writeLinkLegend();
    title(fmt::format("bandwidth in GB/s at {}, by the fastest path of each pair", largestSize()));
    writeFigures(bestBandwidth, /*isTime=*/false);
    title("latency in us at the smallest size, by the quickest path of each pair");
    writeFigures(
        [](const PairRow &row) {
          const std::optional<Path> path = quickestPath(row);
          return path ? latencyOf(on(row, *path)) : 0;
        },
        /*isTime=*/true);
    if (options_.allPaths)
      for (Path path : kAllPaths)
        writePath(path);
    out_ += "\n";
    line("rows send, columns receive");
  }

  void writePath(Path path) {
    const bool isTried = llvm::any_of(report_.rows, [&](const PairRow &row) {
      return on(row, path).outcome != PathOutcome::NotMeasured;
    });
    if (!isTried)
      return;
    title(fmt::format("bandwidth in GB/s at {}, by {}", largestSize(), name(path).str()));
    line("    " + meaning(path).str());
    writeFigures([&](const PairRow &row) { return bandwidthOf(on(row, path)); }, false, path);
    title(fmt::format("latency in us at the smallest size, by {}", name(path).str()));
    writeFigures([&](const PairRow &row) { return latencyOf(on(row, path)); }, true, path);
  }

  std::string largestSize() const {
    int64_t largest = 0;
    for (const PairRow &row : report_.rows)
      for (const PathReport &path : row.paths)
        if (const PathPoint *point = largestPoint(path))
          largest = std::max(largest, point->bytes);
    return sizeText(largest);
  }

  template <class Figure>
  void writeFigures(Figure figure, bool isTime, std::optional<Path> path = std::nullopt) {
    double best = 0;
    for (const PairRow &row : report_.rows)
      if (const double value = figure(row); value > 0)
        best = best == 0 ? value : isTime ? std::min(best, value) : std::max(best, value);
    writeMatrix([&](const PairRow &row) {
      const PathOutcome outcome = path ? on(row, *path).outcome : outcomeOf(row);
      const double value = figure(row);
      MatrixCell cell;
      // A pair that works by some path has a figure, and a fault of another one.
      cell.isFailed = isFault(outcome);
      cell.text = value > 0 ? figureText(value) + (cell.isFailed ? "*" : "")
                            : kShortOutcomes[static_cast<size_t>(outcome)];
      hasPartialFaults_ |= value > 0 && cell.isFailed;
      if (value > 0 && !cell.isFailed)
        cell.heat = isTime ? best / value : value / best;
      return cell;
    });
    if (std::exchange(hasPartialFaults_, false))
      line("    * fails by another path");
  }

  MatrixCell linkCell(const PairRow &row) const {
    std::string text = kShortLinks[static_cast<size_t>(row.link.kind)];
    if (row.link.kind == LinkClass::NvLink && row.link.count > 0)
      text += std::to_string(row.link.count);
    return {text + (row.link.noPeerAccess.empty() ? "" : "!"), std::nullopt,
            !row.link.noPeerAccess.empty()};
  }

  void writeLinkLegend() {
    std::vector<std::string> words;
    for (size_t kind = 0; kind < kLinkClasses; ++kind)
      if (llvm::any_of(report_.rows, [&](const PairRow &row) {
            return static_cast<size_t>(row.link.kind) == kind;
          }))
        words.push_back(
            fmt::format("{}: {}", kShortLinks[kind], meaning(static_cast<LinkClass>(kind)).str()));
    if (llvm::any_of(report_.rows,
                     [](const PairRow &row) { return !row.link.noPeerAccess.empty(); }))
      words.push_back("!: no peer access");
    line("    " + wrapped(fmt::format("{}", fmt::join(words, "; ")), options_.columns, 4));
  }

  template <class CellOf> void writeMatrix(CellOf cellOf) {
    std::string header(kLabelWidth, ' ');
    for (size_t destination = 0; destination < devices(); ++destination)
      header += fmt::format("{:>{}}", destination, width_);
    line(header);
    for (size_t source = 0; source < devices(); ++source) {
      std::string text = fmt::format("{:>{}}", source, kLabelWidth);
      for (size_t destination = 0; destination < devices(); ++destination) {
        const PairRow *row = table_.row(source, destination);
        text += cellText(row ? cellOf(*row) : MatrixCell{source == destination ? "-" : "?", {}});
      }
      line(text);
    }
  }

  std::string cellText(const MatrixCell &cell) const {
    const std::string text = fmt::format("{:>{}}", cell.text, width_ - 1);
    if (!options_.colours || (!cell.heat && !cell.isFailed))
      return " " + text;
    const double steps = static_cast<double>(std::size(kHeat));
    const auto step =
        static_cast<size_t>(std::clamp(cell.heat.value_or(0) * steps, 0.0, steps - 1));
    const CellColour colour = cell.isFailed ? kFailed : kHeat[step];
    return fmt::format(" \x1b[48;5;{};38;5;{}m{}\x1b[0m", colour.background, colour.foreground,
                       text);
  }

  // -- The summary of many. --

  struct ClassSummary {
    std::vector<double> latencies;
    std::vector<std::pair<double, const PairRow *>> rates;
    std::map<PathOutcome, std::vector<const PairRow *>> failed;
  };

  void writeSummary() {
    std::map<LinkClass, ClassSummary> classes;
    for (const PairRow &row : report_.rows) {
      ClassSummary &summary = classes[row.link.kind];
      if (const double rate = bestBandwidth(row); rate > 0)
        summary.rates.push_back({rate, &row});
      if (const std::optional<Path> path = quickestPath(row))
        summary.latencies.push_back(latencyOf(on(row, *path)));
      if (isFault(worstOutcome(row)))
        summary.failed[worstOutcome(row)].push_back(&row);
    }
    for (auto &[kind, summary] : classes)
      writeClass(kind, summary);
  }

  void writeClass(LinkClass kind, ClassSummary &summary) {
    title(fmt::format("{} ({})", name(kind).str(), meaning(kind).str()));
    llvm::stable_sort(summary.rates,
                      [](const auto &a, const auto &b) { return a.first < b.first; });
    if (!summary.rates.empty()) {
      std::vector<double> rates;
      for (const auto &[rate, row] : summary.rates)
        rates.push_back(rate);
      line(fmt::format("  {} ordered pairs, bandwidth at {} in GB/s: median {}, {} to {}",
                       rates.size(), largestSize(), figureText(medianOf(rates)),
                       figureText(rates.front()), figureText(rates.back())));
      std::vector<std::string> slowest;
      constexpr size_t kMostNamed = 5;
      for (const auto &[rate, row] : llvm::ArrayRef(summary.rates).take_front(kMostNamed))
        slowest.push_back(
            fmt::format("{} to {}: {}", row->source, row->destination, figureText(rate)));
      line("  slowest: " +
           wrapped(fmt::format("{}", fmt::join(slowest, ", ")), options_.columns, 11));
    }
    if (!summary.latencies.empty()) {
      const auto [least, most] =
          std::minmax_element(summary.latencies.begin(), summary.latencies.end());
      line(fmt::format("  latency at the smallest size in us: median {}, {} to {}",
                       figureText(medianOf(summary.latencies)), figureText(*least),
                       figureText(*most)));
    }
    for (const auto &[outcome, rows] : summary.failed)
      line(coloured(kSeverityColours[0], fmt::format("  {}: {} ordered pair{}", name(outcome).str(),
                                                     rows.size(), rows.size() == 1 ? "" : "s")));
  }

  // -- Sentences. --

  void writeVerdicts(const std::vector<Verdict> &verdicts) {
    title("verdicts");
    if (verdicts.empty())
      line("  none: " + wordsForNone(report_));
    for (const Verdict &verdict : verdicts) {
      const VerdictSeverity severity = severityOf(verdict.kind);
      constexpr size_t kIndent = 9;
      line("  " +
           coloured(kSeverityColours[static_cast<size_t>(severity)],
                    fmt::format("{:<5}", name(severity).str())) +
           "  " + wrapped(verdict.sentence, options_.columns, kIndent));
      if (!verdict.cause.empty())
        line(std::string(kIndent, ' ') +
             wrapped("cause: " + verdict.cause, options_.columns, kIndent));
    }
  }

  void writeSentences(const char *heading, const std::vector<std::string> &sentences) {
    if (sentences.empty())
      return;
    title(heading);
    for (const std::string &sentence : sentences)
      line("  " + wrapped(sentence, options_.columns, 4));
  }

  const PairReport &report_;
  const MatrixOptions &options_;
  PairTable table_;
  size_t width_;
  bool hasPartialFaults_ = false;
  std::string out_;
};

} // namespace

std::string matrixText(const PairReport &report, const std::vector<Verdict> &verdicts,
                       const Recommendations &recommendations, const MatrixOptions &options) {
  return MatrixWriter(report, options).text(verdicts, recommendations);
}

} // namespace braid
