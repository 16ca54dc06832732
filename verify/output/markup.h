#pragma once

/// Escapes text for HTML, SVG and XML, between tags and in attributes: characters that would be read as
/// markup are written as references.
///
/// Exact   any bytes become well-formed XML 1.0. Control characters are dropped (tab and line end stay, as
///         references), and each byte that is not UTF-8 becomes one U+FFFD.

#include <string>
#include <string_view>

namespace verify {

std::string markup_text(std::string_view text);

}  // namespace verify
