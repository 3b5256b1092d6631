//===- tests/api/pairs/random_report.cpp - machines that are healthy, and what breaks them ----===//

#include "tests/api/pairs/random_report.h"

#include "api/pairs/pair_figures.h"

#include <algorithm>

namespace braid::pairs_test {
namespace {

// By LinkClass: GB/s one way, and what a healthy one gives of it.
constexpr double kNominal[] = {0, 450, 31.5, 31.5, 31.5, 31.5, 0};
constexpr double kGiven[] = {0, 0.86, 0.83, 0.7, 0.66, 0.42, 0};
// Of links whose nominal rate nobody knows.
constexpr double kUnknownGBps = 12;
// Far below what a slow link gives, so that it does not look like the host.
constexpr double kHostGBps = 2;
// By Path: of what the link gives, and microseconds of a small transfer.
constexpr double kShare[] = {1, 0.97, 0.98, 0.95, 0.9, 1};
constexpr double kLatencyOfPath[] = {4.1, 2.2, 4.4, 2.6, 9.8, 13};

class Noise {
public:
  Noise(double share, std::mt19937 &random) : share_(share), random_(random) {}
  double operator()(double value) {
    return value * std::uniform_real_distribution<double>(1 - share_, 1 + share_)(random_);
  }

private:
  double share_;
  std::mt19937 &random_;
};

/// In GB/s.
double givenBy(LinkClass kind) {
  const auto index = static_cast<size_t>(kind);
  return kNominal[index] > 0 ? kNominal[index] * kGiven[index] : kUnknownGBps;
}

PathReport measured(double GBps, double latencyUs, Noise &noise) {
  PathReport path;
  path.outcome = PathOutcome::Measured;
  for (int64_t bytes = 4; bytes <= int64_t(256) << 20; bytes *= 8) {
    const double us = latencyUs + static_cast<double>(bytes) / (GBps * 1e3);
    path.points.push_back({bytes, noise(us), noise(static_cast<double>(bytes) / (us * 1e3))});
  }
  return path;
}

PairRow healthyRow(const MachineShape &shape, int64_t source, int64_t destination, Noise &noise) {
  PairRow row;
  row.source = source;
  row.destination = destination;
  const auto island = static_cast<int64_t>(shape.island);
  row.link.kind = source / island == destination / island ? shape.within : shape.between;
  const double GBps = givenBy(row.link.kind);
  if (shape.hasTopology) {
    row.link.nominalGBps = nominalOf(row.link.kind);
    row.link.count = row.link.kind == LinkClass::NvLink ? 18 : 0;
  } else {
    row.link.kind = LinkClass::Unknown;
  }
  for (Path path : kAllPaths) {
    const auto index = static_cast<size_t>(path);
    const double given = path == Path::Host ? kHostGBps : GBps * kShare[index];
    on(row, path) = measured(given, kLatencyOfPath[index], noise);
    if (shape.hasTogether)
      on(row, path).togetherGBps =
          noise(bandwidthOf(on(row, path)) / static_cast<double>(shape.devices - 1));
  }
  return row;
}

} // namespace

double nominalOf(LinkClass kind) { return kNominal[static_cast<size_t>(kind)]; }

PairReport healthyReport(const MachineShape &shape, std::mt19937 &random) {
  Noise noise(shape.noise, random);
  PairReport report;
  report.backend = "cuda";
  report.hostname = "machine";
  const auto devices = static_cast<int64_t>(shape.devices);
  for (int64_t device = 0; device < devices; ++device)
    report.devices.push_back({"NVIDIA H200", "GPU-" + std::to_string(device),
                              "0000:" + std::to_string(10 + device) + ":00.0",
                              device * 2 / devices});
  for (int64_t source = 0; source < devices; ++source)
    for (int64_t destination = 0; destination < devices; ++destination)
      if (source != destination)
        report.rows.push_back(healthyRow(shape, source, destination, noise));
  return report;
}

MachineShape randomShape(std::mt19937 &random, size_t most) {
  auto draw = [&](size_t low, size_t high) {
    return std::uniform_int_distribution<size_t>(low, high)(random);
  };
  constexpr LinkClass kClasses[] = {LinkClass::NvLink, LinkClass::PcieSwitch, LinkClass::HostBridge,
                                    LinkClass::SameNuma, LinkClass::CrossNuma};
  MachineShape shape;
  // Few of the large ones, which take long.
  shape.devices = draw(0, 99) < 97 ? draw(2, std::min<size_t>(most, 12)) : draw(2, most);
  const size_t within = draw(0, 4);
  shape.within = kClasses[within];
  shape.between = kClasses[draw(within, 4)];
  shape.island = draw(1, shape.devices);
  shape.noise = 0.01 * static_cast<double>(draw(0, 5));
  shape.hasTopology = draw(0, 3) > 0;
  // Islands that nobody knows of are two speeds of one class.
  if (!shape.hasTopology)
    shape.island = shape.devices;
  shape.hasTogether = draw(0, 1) == 1;
  return shape;
}

PairRow &rowOf(PairReport &report, int64_t source, int64_t destination) {
  return *std::find_if(report.rows.begin(), report.rows.end(), [&](const PairRow &row) {
    return row.source == source && row.destination == destination;
  });
}

void makeSlow(PairRow &row, double factor) {
  for (Path path : kAllPaths)
    if (path != Path::Host) {
      for (PathPoint &point : on(row, path).points)
        if (point.bytes >= 1 << 16)
          point.GBps /= factor;
      on(row, path).togetherGBps /= factor;
    }
}

void makeLate(PairRow &row, double factor) {
  for (PathReport &path : row.paths)
    for (PathPoint &point : path.points)
      point.latencyUs *= factor;
}

void takePeerAccess(PairRow &row) {
  row.link.noPeerAccess = "the chipset does not support it";
  for (Path path : kPeerPaths) {
    on(row, path) = {};
    on(row, path).outcome = PathOutcome::Unavailable;
    on(row, path).reason = "no peer access";
  }
}

void fail(PairRow &row, PathOutcome outcome) {
  for (PathReport &path : row.paths) {
    path = {};
    path.outcome = outcome;
    path.reason = "rank 1 was killed by signal 9";
    if (outcome == PathOutcome::WrongData) {
      path.reason = "";
      path.wrong = WrongData{1 << 20, 3, 4096, 0x5a, 0x5b};
    }
  }
}

void breakSome(PairReport &report) {
  const auto devices = static_cast<int64_t>(report.devices.size());
  if (devices < 8) {
    makeSlow(rowOf(report, 1, 0), 3);
    return;
  }
  for (PairRow &row : report.rows)
    if (row.source == 6 || row.destination == 6)
      makeSlow(row, 5);
  fail(rowOf(report, 1, 2), PathOutcome::Hung);
  fail(rowOf(report, 2, 1), PathOutcome::Hung);
  fail(rowOf(report, 3, 0), PathOutcome::Crashed);
  PathReport &wrong = on(rowOf(report, 4, 5), Path::PutKernel);
  wrong = {};
  wrong.outcome = PathOutcome::WrongData;
  wrong.wrong = WrongData{1 << 20, 3, 4096, 0x5a, 0x5b};
  makeSlow(rowOf(report, 5, 1), 2.5);
  makeLate(rowOf(report, 0, 4), 3);
  takePeerAccess(rowOf(report, 3, 7));
  takePeerAccess(rowOf(report, 7, 3));
}

} // namespace braid::pairs_test
