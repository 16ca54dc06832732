#pragma once

/// What the pictures of the tree share: the size of a page, its style in light and dark, and text.

#include <string>

namespace test {

inline constexpr double kPictureWidth = 1040;

/// Returns the whole SVG around what is drawn. `title` is what a reader hears who cannot see the picture.
std::string picture(double height, const std::string& title, const std::string& drawn);

/// Returns a line of text. The classes are those of the style: "name", "soft", "title", "centred".
std::string picture_text(double x, double y, const std::string& classes, const std::string& text);

}  // namespace test
