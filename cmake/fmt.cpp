//===- cmake/fmt.cpp - fmt, compiled once -----------------------------------------------------===//
//
// Distributions package fmt as a shared library, on which `braid` must not depend, or as a
// header-only library, which triples the compile time of every source that formats a message. This
// file therefore compiles fmt once, and the result is linked statically. Only templates that the
// headers declare but do not define need to be instantiated explicitly. For versions of fmt that
// this file does not support, BraidDependencies.cmake falls back to FMT_HEADER_ONLY.
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
