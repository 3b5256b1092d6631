//===- api/view/page_parts.h - the parts of a page that are the same for all ------------------===//
#pragma once

namespace braid::view {

/// From api/view/page/; made by the build (cmake/BraidEmbed.cmake).
extern const char *const kPageHtml, *const kPageCss, *const kPageJs;

} // namespace braid::view
