//===- tests/support/examples.h - the texts of examples/ --------------------------------------===//
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace braid::test {

/// Reads a file such as "ag_matmul.braid". Fails the test if it does not exist.
inline std::string readExample(const std::string &file) {
  std::ifstream input("examples/" + file);
  EXPECT_TRUE(input) << "run from the repository's root";
  std::stringstream text;
  text << input.rdbuf();
  return text.str();
}

} // namespace braid::test
