//===- tests/hosts/support.cpp - Plans of programs for several hosts --------------------------===//

#include "tests/hosts/support.h"

#include <fmt/format.h>

namespace braid::test {

std::string commandsOf(const Planned &of, size_t rank) {
  std::string text;
  for (const Command &command : of.plans.at(rank).commands)
    text += str(of.plans[rank], command) + "\n";
  return text;
}

std::string gatherOf(int64_t ranks, int64_t ranksPerHost) {
  return fmt::format(R"(fusion @g(D = {}, L = {}) {{
  mesh [0 .. D) of L
  %A = input f32[DIDx{{D}}, 4, 5]
  %B = input f32[5, 6]
  %C = matmul %A, %B : f32[Stream{{D}}, 4, 6]
  output %C
}}
)",
                     ranks, ranksPerHost);
}

std::string scatterOf(int64_t ranks, int64_t ranksPerHost) {
  return fmt::format(R"(fusion @r(D = {}, L = {}) {{
  mesh [0 .. D) of L
  %A = input f32[D, 4, DIDx{{D}}, 5]
  %B = input f32[DIDx{{D}}, 5, 6]
  %C = matmul %A, %B : f32[DIDx{{D}}, 4, 6]
  output %C
}}
)",
                     ranks, ranksPerHost);
}

} // namespace braid::test
