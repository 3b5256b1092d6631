//===- api/pairs/heat_drawing.cpp - what the picture and the page share -----------------------===//

#include "api/pairs/heat_drawing.h"

#include "llvm/Support/ConvertUTF.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace braid {
namespace {

struct Rgb {
  int red, green, blue;
};
// Matplotlib's viridis at equal distances, which is in the public domain (CC0).
constexpr Rgb kViridis[] = {{68, 1, 84},    {72, 40, 120},  {62, 73, 137},  {49, 104, 142},
                            {38, 130, 142}, {31, 158, 137}, {53, 183, 121}, {110, 206, 88},
                            {181, 222, 43}, {253, 231, 37}};

} // namespace

std::string heatColour(double share) {
  constexpr double kLast = std::size(kViridis) - 1;
  const double at = std::clamp(share, 0.0, 1.0) * kLast;
  const auto low = static_cast<size_t>(std::min(std::floor(at), kLast - 1));
  const double part = at - static_cast<double>(low);
  auto mix = [&](int Rgb::*channel) {
    return static_cast<int>(
        std::lround((1 - part) * kViridis[low].*channel + part * kViridis[low + 1].*channel));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(&Rgb::red), mix(&Rgb::green), mix(&Rgb::blue));
}

const char *textColourOn(double share) {
  constexpr double kLight = 0.5; // from there on, black has more contrast
  return share < kLight ? "#fff" : "#000";
}

std::string machineText(const PairReport &report) {
  std::map<std::string, size_t> names;
  for (const MachineDevice &device : report.devices)
    if (!device.name.empty())
      ++names[device.name];
  std::string text =
      fmt::format("{} device{}", report.devices.size(), report.devices.size() == 1 ? "" : "s");
  std::string parts;
  for (const auto &[name, count] : names)
    parts += (parts.empty() ? "" : ", ") +
             (names.size() == 1 ? name : fmt::format("{} {}", count, name));
  if (!parts.empty())
    text += " (" + parts + ")";
  if (!report.hostname.empty())
    text += " of " + report.hostname;
  return text + (report.backend.empty() ? "" : ", " + report.backend);
}

} // namespace braid
