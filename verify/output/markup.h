#pragma once

/// Text as HTML, SVG and XML take it, between tags and in an attribute: what would be read as markup is
/// written as a reference.
///
/// Exact   any bytes become well-formed XML 1.0: control characters are dropped (tab and line end stay, as
///         references), and bytes that are no UTF-8 become U+FFFD, one for one.

#include <string>
#include <string_view>

namespace verify {

std::string markup_text(std::string_view text);

}  // namespace verify
