#pragma once

/// A site is the place of a call in a rank program: a name in the terms of the field
/// ("row_parallel_linear.forward"), the file and the line. Reports, ledgers and records all refer to
/// sites. A Site is made from the name alone, at the call:
///
///   group.all_reduce(output, ReduceOp::sum, "row_parallel_linear.forward");
///
/// Calls   a name is a string literal, which the compiler enforces, because records outlive any text that
///         a program builds. Site::named() takes any text, and keeps it for the life of the process.

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

#include "sim/base/matching_build.h"

namespace sim {

struct Site {
  consteval Site(const char* site_name, std::source_location location = std::source_location::current())
      : name(site_name), file(location.file_name()), line(location.line()) {}

  static Site named(std::string_view name, std::source_location location = std::source_location::current());
  /// A site of a program that is not compiled with this one. Its texts are kept for the life of the process.
  static Site at(std::string_view name, std::string_view file, std::int64_t line);

  const char* name;
  const char* file;
  std::int64_t line;  // as wide as what a copy reads at once, which then need not wait for narrower writes
};

/// Returns the site as text: "'mlp.forward' (mlp.cpp:40)".
std::string text_of(const Site& site);

}  // namespace sim
