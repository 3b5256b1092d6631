//===- api/pairs/known_links.cpp - what is known about measured devices from elsewhere --------===//

#include "api/pairs/known_links.h"

#include "llvm/ADT/STLExtras.h"

namespace braid {

void addKnownLinks(PairReport &report, const Machine &machine) {
  std::vector<std::optional<size_t>> places; // in the machine
  for (MachineDevice &device : report.devices) {
    const auto known = llvm::find_if(machine.devices, [&](const MachineDevice &each) {
      return !device.uuid.empty() && each.uuid == device.uuid;
    });
    const bool isKnown = known != machine.devices.end();
    places.push_back(isKnown ? std::optional<size_t>(known - machine.devices.begin())
                             : std::nullopt);
    if (isKnown)
      device = *known;
  }
  for (PairRow &row : report.rows) {
    const std::optional<size_t> source = places[static_cast<size_t>(row.source)],
                                destination = places[static_cast<size_t>(row.destination)];
    if (source && destination)
      row.link = machine.links[*source][*destination];
  }
}

} // namespace braid
