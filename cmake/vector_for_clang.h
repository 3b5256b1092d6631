// Clang 14 instantiates the constexpr members of std::vector where they are named, which LLVM's
// JSON.h does before the type of the elements is complete. Here they are no constexpr.
#pragma once

#include <memory>
#include <string>

#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_bits // was declared as constexpr
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
