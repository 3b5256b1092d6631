//===- cmake/fmt.cpp - fmt, compiled once -----------------------------------------------------===//
//
// Distributions package fmt as a shared library, which `braid` must not need, or as headers, which
// triple the time to compile whatever formats a message. So its code is compiled here, once, and
// linked statically. Only templates that the headers declare but do not define have to be named.
// For versions that it was not written for, BraidDependencies.cmake falls back to FMT_HEADER_ONLY.
//
//===------------------------------------------------------------------------------------------===//
#ifndef FMT_HEADER_ONLY
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto thousands_sep_impl<wchar_t>(locale_ref) -> thousands_sep_result<wchar_t>;
template auto decimal_point_impl(locale_ref) -> char;
template auto decimal_point_impl(locale_ref) -> wchar_t;
#if FMT_VERSION < 90000
template int format_float<double>(double, int, float_specs, buffer<char> &);
template int format_float<long double>(long double, int, float_specs, buffer<char> &);
template int snprintf_float<double>(double, int, float_specs, buffer<char> &);
template int snprintf_float<long double>(long double, int, float_specs, buffer<char> &);
#elif FMT_VERSION >= 100000
template void vformat_to(buffer<char> &, string_view, typename vformat_args<>::type, locale_ref);
#endif

} // namespace detail
FMT_END_NAMESPACE
#endif
