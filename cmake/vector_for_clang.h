// Clang 14 instantiates the constexpr member functions of std::vector where they are named, which
// LLVM's JSON.h does while the element type is still incomplete. This header therefore includes
// <vector> without constexpr. The function __fill_a1 for std::vector<bool> has already been
// declared constexpr, so <vector> defines it under another name, and a wrapper defines the original
// symbol.
#pragma once

#include <memory>
#include <string>

#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_bits
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr

__attribute__((weak)) void
fillBits(std::_Bit_iterator first, std::_Bit_iterator last,
         const bool &value) __asm__("_ZSt9__fill_a1St13_Bit_iteratorS_RKb");
void fillBits(std::_Bit_iterator first, std::_Bit_iterator last, const bool &value) {
  std::__fill_bits(first, last, value);
}
