//===- api/pairs/report_json.cpp - a report about pairs as JSON, in both directions -----------===//

#include "api/pairs/report_json.h"

#include "api/pairs/pair_figures.h"
#include "api/pairs/pair_names.h"
#include "ir/failure.h"
#include "runtime/json_mistake.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

namespace braid {
namespace {

using PairJson = nlohmann::ordered_json;

constexpr const char *kPairFormat = "braid p2p";
/// Of texts that are written; what was cut within a letter, or is none, takes more when read.
constexpr size_t kMostText = 1024, kMostTextRead = 4 * kMostText;
/// No time and no rate of a machine is larger.
constexpr double kMostFigure = 1e12;
constexpr int64_t kMostInteger = int64_t(1) << 50;

// -- Writing. --

std::string dumped(const PairJson &json) {
  return json.dump(-1, ' ', false, PairJson::error_handler_t::replace);
}

/// No measurement has more digits.
double sixDigits(double value) {
  if (value == 0 || !std::isfinite(value))
    return 0;
  const double unit = std::pow(10, 5 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(unit) && unit > 0 ? std::round(value * unit) / unit : value;
}

void put(PairJson &json, const char *key, const std::string &text) {
  if (!text.empty())
    json[key] = text.substr(0, kMostText);
}
void put(PairJson &json, const char *key, double figure) {
  if (figure != 0)
    json[key] = sixDigits(figure);
}

PairJson jsonOf(const WrongData &wrong) {
  PairJson json = {{"bytes", wrong.bytes},
                   {"round", wrong.round},
                   {"offset", wrong.offset},
                   {"expected", wrong.expected},
                   {"got", wrong.got}};
  if (wrong.together)
    json["together"] = true;
  return json;
}

PairJson jsonOf(const MachineDevice &device) {
  PairJson json = PairJson::object();
  put(json, "name", device.name);
  put(json, "uuid", device.uuid);
  put(json, "pci", device.pci);
  if (device.numaNode >= 0)
    json["numa_node"] = device.numaNode;
  return json;
}

PairJson jsonOf(const PathReport &path) {
  PairJson json = {{"outcome", name(path.outcome).str()}};
  put(json, "reason", path.reason);
  for (const PathPoint &point : path.points)
    json["points"].push_back({point.bytes, sixDigits(point.latencyUs), sixDigits(point.GBps)});
  if (path.wrong)
    json["wrong"] = jsonOf(*path.wrong);
  put(json, "together_GBps", path.togetherGBps);
  return json;
}

PairJson jsonOf(const PairRow &row) {
  PairJson link = {{"class", name(row.link.kind).str()}};
  if (row.link.count != 0)
    link["count"] = row.link.count;
  put(link, "nominal_GBps", row.link.nominalGBps);
  put(link, "no_peer_access", row.link.noPeerAccess);
  PairJson paths = PairJson::object();
  for (Path path : kAllPaths)
    if (on(row, path).outcome != PathOutcome::NotMeasured || !on(row, path).reason.empty())
      paths[name(path).str()] = jsonOf(on(row, path));
  return {{"source", row.source},
          {"destination", row.destination},
          {"link", std::move(link)},
          {"paths", std::move(paths)}};
}

PairJson jsonOf(const CoupledLink &link) {
  PairJson json = {
      {"source", link.source}, {"destination", link.destination}, {"both_ways", link.bothWays}};
  put(json, "alone_GBps", link.aloneGBps);
  put(json, "together_GBps", link.togetherGBps);
  return json;
}

PairJson jsonOf(const LinkCouple &couple) {
  return {{"path", name(couple.path).str()},
          {"bytes", couple.bytes},
          {"links", {jsonOf(couple.one), jsonOf(couple.other)}}};
}

PairJson jsonOf(const std::vector<Path> &paths) {
  PairJson json = PairJson::array();
  for (Path path : paths)
    json.push_back(name(path).str());
  return json;
}

PairJson jsonOf(const Verdict &verdict) {
  PairJson json = {{"kind", name(verdict.kind).str()},
                   {"severity", name(severityOf(verdict.kind)).str()},
                   {"scope", name(verdict.scope).str()}};
  if (verdict.scope == VerdictScope::Pair)
    json.update({{"source", verdict.source},
                 {"destination", verdict.destination},
                 {"both_ways", verdict.bothWays}});
  if (verdict.scope == VerdictScope::Device)
    json.update({{"device", verdict.device}, {"flow", name(verdict.flow).str()}});
  if (verdict.together)
    json["together"] = true;
  if (verdict.other)
    json["other"] = {{"source", verdict.other->source},
                     {"destination", verdict.other->destination},
                     {"both_ways", verdict.other->bothWays}};
  json["link"] = name(verdict.link).str();
  if (!verdict.paths.empty())
    json["paths"] = jsonOf(verdict.paths);
  if (!verdict.unit.empty())
    json.update({{"figure", sixDigits(verdict.figure)},
                 {"expected", sixDigits(verdict.expected)},
                 {"unit", verdict.unit}});
  if (verdict.wrong)
    json["wrong"] = jsonOf(*verdict.wrong);
  json["sentence"] = verdict.sentence;
  put(json, "cause", verdict.cause);
  return json;
}

PairJson jsonOf(const Recommendations &all) {
  PairJson leaveOut = PairJson::array(), paths = PairJson::array();
  for (const LeftOut &left : all.leaveOut)
    leaveOut.push_back({{"device", left.device},
                        {"slowest_with_GBps", sixDigits(left.slowestWithGBps)},
                        {"slowest_without_GBps", sixDigits(left.slowestWithoutGBps)},
                        {"sentence", left.sentence}});
  auto word = [](std::optional<Path> path) {
    return path ? PairJson(name(*path).str()) : PairJson(nullptr);
  };
  for (const PathChoice &choice : all.paths)
    paths.push_back({{"source", choice.source},
                     {"destination", choice.destination},
                     {"small", word(choice.small)},
                     {"latency_us", sixDigits(choice.latencyUs)},
                     {"large", word(choice.large)},
                     {"GBps", sixDigits(choice.GBps)}});
  return {{"leave_out", std::move(leaveOut)},
          {"mesh_order", all.order.devices},
          {"slowest_hop_GBps", sixDigits(all.order.slowestGBps)},
          {"slowest_hop_by_number_GBps", sixDigits(all.order.slowestByNumberGBps)},
          {"paths", std::move(paths)},
          {"sentences", all.sentences()}};
}

template <class Items> std::string lines(const Items &items) {
  std::vector<std::string> all;
  for (const auto &item : items)
    all.push_back("\n  " + dumped(jsonOf(item)));
  return fmt::format("[{}]", fmt::join(all, ","));
}

// -- Reading. The first mistake stays. --

std::string listedWords(llvm::ArrayRef<llvm::StringRef> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i].str();
  return text;
}

class PairReportReader {
public:
  Result<PairReport> read(llvm::StringRef text);

private:
  void fail(const std::string &where, const std::string &expected, const PairJson &got);
  const PairJson &field(const PairJson &object, const char *key);
  const PairJson &list(const PairJson &object, const char *key, const std::string &where,
                       size_t most);
  std::string text(const PairJson &object, const char *key, const std::string &where);
  int64_t integer(const PairJson &json, const std::string &where, int64_t least, int64_t most);
  double figure(const PairJson &json, const std::string &where);
  template <class Enum>
  Enum word(const PairJson &object, const char *key, const std::string &where,
            std::optional<Enum> (*from)(llvm::StringRef), llvm::ArrayRef<llvm::StringRef> known);

  MachineDevice device(const PairJson &json, const std::string &where);
  PairRow pair(const PairJson &json, const std::string &where, size_t devices);
  Link link(const PairJson &json, const std::string &where);
  PathReport path(const PairJson &json, const std::string &where);
  std::vector<PathPoint> points(const PairJson &json, const std::string &where);
  WrongData wrong(const PairJson &json, const std::string &where);
  bool truth(const PairJson &object, const char *key, const std::string &where);
  CoupledLink coupledLink(const PairJson &json, const std::string &where, size_t devices);
  LinkCouple couple(const PairJson &json, const std::string &where, size_t devices);
  Result<PairReport> report(const PairJson &json);

  Status status_;
};

void PairReportReader::fail(const std::string &where, const std::string &expected,
                            const PairJson &got) {
  if (!status_.isOk())
    return;
  status_ = badInput("report of pairs: {}: expected {}, got {}", where, expected, jsonGot(got));
}

const PairJson &PairReportReader::field(const PairJson &object, const char *key) {
  static const PairJson kNothing;
  if (!object.is_object())
    return kNothing;
  auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

const PairJson &PairReportReader::list(const PairJson &object, const char *key,
                                       const std::string &where, size_t most) {
  static const PairJson kEmpty = PairJson::array();
  const PairJson &json = field(object, key);
  if (json.is_array() && json.size() <= most)
    return json;
  if (json.is_array())
    fail(where, fmt::format("at most {} of them", most), PairJson(json.size()));
  else
    fail(where, "a list", json);
  return kEmpty;
}

std::string PairReportReader::text(const PairJson &object, const char *key,
                                   const std::string &where) {
  const PairJson &json = field(object, key);
  if (json.is_null())
    return "";
  if (json.is_string() && json.get_ref<const std::string &>().size() <= kMostTextRead)
    return json.get<std::string>();
  fail(where + "." + key, fmt::format("a text of at most {} bytes", kMostTextRead), json);
  return "";
}

int64_t PairReportReader::integer(const PairJson &json, const std::string &where, int64_t least,
                                  int64_t most) {
  const bool fits = json.is_number_unsigned()
                        ? json.get<uint64_t>() <= static_cast<uint64_t>(most)
                        : json.is_number_integer() && json.get<int64_t>() <= most;
  if (fits && json.get<int64_t>() >= least)
    return json.get<int64_t>();
  fail(where, fmt::format("an integer from {} to {}", least, most), json);
  return least;
}

double PairReportReader::figure(const PairJson &json, const std::string &where) {
  const double value = json.is_null() ? 0 : json.is_number() ? json.get<double>() : -1;
  if (value >= 0 && value <= kMostFigure)
    return value;
  fail(where, fmt::format("a number from 0 to {:g}", kMostFigure), json);
  return 0;
}

template <class Enum>
Enum PairReportReader::word(const PairJson &object, const char *key, const std::string &where,
                            std::optional<Enum> (*from)(llvm::StringRef),
                            llvm::ArrayRef<llvm::StringRef> known) {
  const PairJson &json = field(object, key);
  const std::optional<Enum> value =
      json.is_string() ? from(json.get_ref<const std::string &>()) : std::nullopt;
  if (!value)
    fail(where + "." + key, listedWords(known), json);
  return value.value_or(Enum());
}

MachineDevice PairReportReader::device(const PairJson &json, const std::string &where) {
  if (!json.is_object())
    fail(where, "an object", json);
  MachineDevice device;
  device.name = text(json, "name", where);
  device.uuid = text(json, "uuid", where);
  device.pci = text(json, "pci", where);
  if (const PairJson &node = field(json, "numa_node"); !node.is_null())
    device.numaNode = integer(node, where + ".numa_node", -1, kMostInteger);
  return device;
}

Link PairReportReader::link(const PairJson &json, const std::string &where) {
  Link link;
  link.kind = word<LinkClass>(json, "class", where, linkClassFromName, linkClassNames());
  if (const PairJson &count = field(json, "count"); !count.is_null())
    link.count = integer(count, where + ".count", 0, kMostInteger);
  link.nominalGBps = figure(field(json, "nominal_GBps"), where + ".nominal_GBps");
  link.noPeerAccess = text(json, "no_peer_access", where);
  return link;
}

std::vector<PathPoint> PairReportReader::points(const PairJson &json, const std::string &where) {
  std::vector<PathPoint> points;
  for (const PairJson &each : json) {
    const std::string place = fmt::format("{}[{}]", where, points.size());
    if (!each.is_array() || each.size() != 3) {
      fail(place, "bytes, microseconds and GB/s", each);
      break;
    }
    const int64_t least = points.empty() ? 0 : points.back().bytes + 1;
    points.push_back({integer(each[0], place + "[0]", least, kMostInteger),
                      figure(each[1], place + "[1]"), figure(each[2], place + "[2]")});
  }
  return points;
}

/// What is missing is false.
bool PairReportReader::truth(const PairJson &object, const char *key, const std::string &where) {
  const PairJson &json = field(object, key);
  if (!json.is_null() && !json.is_boolean())
    fail(where + "." + key, "true or false", json);
  return json.is_boolean() && json.get<bool>();
}

WrongData PairReportReader::wrong(const PairJson &json, const std::string &where) {
  auto number = [&](const char *key, int64_t most) {
    return integer(field(json, key), where + "." + key, 0, most);
  };
  WrongData wrong;
  wrong.bytes = number("bytes", kMostInteger);
  wrong.round = number("round", kMostInteger);
  wrong.offset = number("offset", kMostInteger);
  wrong.expected = static_cast<uint8_t>(number("expected", 255));
  wrong.got = static_cast<uint8_t>(number("got", 255));
  wrong.together = truth(json, "together", where);
  return wrong;
}

PathReport PairReportReader::path(const PairJson &json, const std::string &where) {
  PathReport path;
  path.outcome = word<PathOutcome>(json, "outcome", where, pathOutcomeFromName, pathOutcomeNames());
  path.reason = text(json, "reason", where);
  if (!field(json, "points").is_null())
    path.points =
        points(list(json, "points", where + ".points", kMostPairPoints), where + ".points");
  if (const PairJson &found = field(json, "wrong"); !found.is_null())
    path.wrong = wrong(found, where + ".wrong");
  path.togetherGBps = figure(field(json, "together_GBps"), where + ".together_GBps");
  return path;
}

PairRow PairReportReader::pair(const PairJson &json, const std::string &where, size_t devices) {
  PairRow row;
  const int64_t last = static_cast<int64_t>(devices) - 1;
  row.source = integer(field(json, "source"), where + ".source", 0, last);
  row.destination = integer(field(json, "destination"), where + ".destination", 0, last);
  if (row.source == row.destination)
    fail(where + ".destination", "another device than the source", PairJson(row.destination));
  row.link = link(field(json, "link"), where + ".link");
  const PairJson &paths = field(json, "paths");
  if (!paths.is_object())
    fail(where + ".paths", "an object", paths);
  else
    for (const auto &[key, value] : paths.items()) {
      const std::optional<Path> which = pathFromName(key);
      if (!which)
        fail(where + ".paths", listedWords(pathNames()), PairJson(key));
      else
        on(row, *which) = path(value, where + ".paths." + key);
    }
  return row;
}

CoupledLink PairReportReader::coupledLink(const PairJson &json, const std::string &where,
                                          size_t devices) {
  const int64_t last = static_cast<int64_t>(devices) - 1;
  CoupledLink link;
  link.source = integer(field(json, "source"), where + ".source", 0, last);
  link.destination = integer(field(json, "destination"), where + ".destination", 0, last);
  link.bothWays = truth(json, "both_ways", where);
  link.aloneGBps = figure(field(json, "alone_GBps"), where + ".alone_GBps");
  link.togetherGBps = figure(field(json, "together_GBps"), where + ".together_GBps");
  return link;
}

LinkCouple PairReportReader::couple(const PairJson &json, const std::string &where,
                                    size_t devices) {
  LinkCouple couple;
  couple.path = word<Path>(json, "path", where, pathFromName, pathNames());
  couple.bytes = integer(field(json, "bytes"), where + ".bytes", 0, kMostInteger);
  const PairJson &links = field(json, "links");
  if (!links.is_array() || links.size() != 2) {
    fail(where + ".links", "two links", links);
    return couple;
  }
  couple.one = coupledLink(links[0], where + ".links[0]", devices);
  couple.other = coupledLink(links[1], where + ".links[1]", devices);
  const CoupledLink &one = couple.one, &other = couple.other;
  if (std::set{one.source, one.destination, other.source, other.destination}.size() != 4)
    fail(where + ".links", "two links of four devices", links);
  return couple;
}

Result<PairReport> PairReportReader::report(const PairJson &json) {
  if (const PairJson &format = field(json, "format"); format != kPairFormat)
    fail("format", fmt::format("\"{}\"", kPairFormat), format);
  if (const PairJson &version = field(json, "version"); version != kPairReportVersion)
    fail("version", fmt::format("{}", kPairReportVersion), version);
  PairReport report;
  report.backend = text(json, "backend", "it");
  report.hostname = text(json, "hostname", "it");
  if (const PairJson &together = field(json, "together"); !together.is_null()) {
    report.together =
        word<PathOutcome>(together, "outcome", "together", pathOutcomeFromName, pathOutcomeNames());
    report.togetherReason = text(together, "reason", "together");
  }
  for (const PairJson &each : list(json, "devices", "devices", kMostPairDevices))
    report.devices.push_back(device(each, fmt::format("devices[{}]", report.devices.size())));
  const size_t devices = report.devices.size();
  std::set<std::pair<int64_t, int64_t>> seen;
  for (const PairJson &each : list(json, "pairs", "pairs", devices * devices)) {
    const std::string where = fmt::format("pairs[{}]", report.rows.size());
    report.rows.push_back(pair(each, where, devices));
    const PairRow &row = report.rows.back();
    if (!seen.insert({row.source, row.destination}).second)
      fail(where, "each ordered pair once",
           PairJson(fmt::format("{} to {} again", row.source, row.destination)));
    if (!status_.isOk())
      break;
  }
  if (!field(json, "couples").is_null())
    for (const PairJson &each : list(json, "couples", "couples", kMostPairDevices))
      report.couples.push_back(
          couple(each, fmt::format("couples[{}]", report.couples.size()), devices));
  if (!status_.isOk())
    return status_;
  return report;
}

/// "line 3, column 14"
std::string placeOf(llvm::StringRef text, size_t byte) {
  const llvm::StringRef before = text.take_front(byte);
  const size_t line = before.rfind('\n');
  const size_t column = line == llvm::StringRef::npos ? before.size() : before.size() - line - 1;
  return fmt::format("line {}, column {}", before.count('\n') + 1, std::max<size_t>(column, 1));
}

Result<PairReport> PairReportReader::read(llvm::StringRef bytes) {
  if (bytes.size() > kMostPairReportBytes)
    return badInput("report of pairs: expected at most {}, got {}",
                    sizeText(static_cast<int64_t>(kMostPairReportBytes)),
                    sizeText(static_cast<int64_t>(bytes.size())));
  try {
    return report(parsedJson<PairJson>(bytes));
  } catch (const PairJson::exception &error) {
    const auto *parse = dynamic_cast<const PairJson::parse_error *>(&error);
    return badInput("report of pairs: {}: expected JSON",
                    placeOf(bytes, parse ? parse->byte : bytes.size()));
  }
}

} // namespace

std::string encodePairReport(const PairReport &report, const std::vector<Verdict> &verdicts,
                             const Recommendations &recommendations) {
  auto line = [](const char *key, const PairJson &value) {
    return fmt::format(" {}: {}", dumped(PairJson(key)), dumped(value));
  };
  std::vector<std::string> parts = {line("format", kPairFormat),
                                    line("version", kPairReportVersion)};
  for (const auto &[key, text] :
       {std::pair("backend", &report.backend), {"hostname", &report.hostname}})
    parts.push_back(line(key, text->substr(0, kMostText)));
  PairJson together = {{"outcome", name(report.together).str()}};
  put(together, "reason", report.togetherReason);
  parts.push_back(line("together", together));
  parts.push_back(" \"devices\": " + lines(report.devices));
  parts.push_back(line("columns", {"bytes", "latency_us", "GBps"}));
  parts.push_back(" \"pairs\": " + lines(report.rows));
  if (!report.couples.empty())
    parts.push_back(" \"couples\": " + lines(report.couples));
  parts.push_back(" \"verdicts\": " + lines(verdicts));
  parts.push_back(line("remarks", remarks(report)));
  parts.push_back(line("recommendations", jsonOf(recommendations)));
  return fmt::format("{{\n{}\n}}\n", fmt::join(parts, ",\n"));
}

Result<PairReport> decodePairReport(llvm::StringRef text) { return PairReportReader().read(text); }

} // namespace braid
