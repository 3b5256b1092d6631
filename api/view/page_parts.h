//===- api/view/page_parts.h - the files of api/view/page, embedded by the build --------------===//
#pragma once

namespace braid::view {

/// The HTML body, style sheet and script of a page (see cmake/BraidEmbed.cmake).
extern const char *const kPageHtml, *const kPageCss, *const kPageJs;

} // namespace braid::view
