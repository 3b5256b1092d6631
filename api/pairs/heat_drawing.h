//===- api/pairs/heat_drawing.h - what the picture and the page share -------------------------===//
#pragma once

#include "api/pairs/pair_report.h"

#include <string>

namespace braid {

/// A colour of the scale, "#1f9e89", from 0, dark, to 1, light. Steps look equally wide, and are
/// told apart without seeing red or green.
std::string heatColour(double share);
/// The brighter or darker one of two that can be read on it.
const char *textColourOn(double share);

/// "8 devices (NVIDIA H200) of node-17, cuda"
std::string machineText(const PairReport &report);

} // namespace braid
