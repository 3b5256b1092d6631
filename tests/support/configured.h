//===- tests/support/configured.h - configurations for tests ----------------------------------===//
#pragma once

#include "lowering/schedule/configuration.h"

#include <gtest/gtest.h>

namespace braid::test {

/// Parses `text`, which must be valid. Examples: "ring;chunks=2", or "" for the defaults.
inline Configurations configured(const std::string &text) {
  Result<Configurations> parsed = Configurations::parse(text);
  EXPECT_TRUE(parsed.isOk()) << parsed.status().message();
  return parsed ? *parsed : Configurations();
}

/// Returns presets that support every stage on one host and transfer blocks by send-receive pairs.
inline std::vector<Preset> pairPresets() {
  std::vector<Preset> found;
  for (const Preset &preset : presets())
    if (preset.fields.transfers() == schedule::Transfers::Pairs &&
        preset.fields.order() != schedule::Order::Hierarchical)
      found.push_back(preset);
  return found;
}

} // namespace braid::test
