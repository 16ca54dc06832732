#pragma once

/// The text of an exception, of bounded length: a program may throw any amount of it, which reports,
/// scenarios and terminals would have to hold.

#include <cstddef>
#include <exception>
#include <string>

namespace sim {

inline constexpr std::size_t kMostExceptionBytes = std::size_t{64} << 10;  // chosen: more than a reader reads

/// Returns the text of an exception: of a long one its beginning, and how many bytes it has more.
std::string text_of(const std::exception& error);

}  // namespace sim
