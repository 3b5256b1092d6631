//===- api/text/markup.h - text inside of HTML and SVG ----------------------------------------===//
#pragma once

#include <string>

namespace braid {

/// Text for an element or an attribute of XML or HTML: escaped, and without what neither may hold;
/// line breaks and tabs stay.
std::string markupText(const std::string &text);

} // namespace braid
