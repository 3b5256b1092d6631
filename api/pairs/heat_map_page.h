//===- api/pairs/heat_map_page.h - the parts of the page that are the same for every report ---===//
#pragma once

namespace braid {

extern const char *const kPageStyle;  ///< CSS; uses --scale, the colours, and --n, the devices
extern const char *const kPageMap;    ///< the section with the map, empty
extern const char *const kPageScript; ///< fills it in from the element "data"

} // namespace braid
