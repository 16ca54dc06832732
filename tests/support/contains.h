#pragma once

/// Whether a text has another one in it.

#include <string_view>

namespace test {

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace test
