#pragma once

/// Where a rank program calls: the call's name in the field's words ("row_parallel_linear.forward"), file and
/// line. Reports, ledgers and records all speak of sites. A Site is made from the name alone, at the call:
///
///   group.all_reduce(output, ReduceOp::sum, "row_parallel_linear.forward");
///
/// Calls   a name is a literal, which the compiler insists on: records outlive what a program makes up.
///         Site::named() takes any text, and keeps it for the life of the process.

#include <source_location>
#include <string>
#include <string_view>

namespace sim {

struct Site {
  consteval Site(const char* site_name, std::source_location location = std::source_location::current())
      : name(site_name), file(location.file_name()), line(static_cast<int>(location.line())) {}

  static Site named(std::string_view name, std::source_location location = std::source_location::current());

  const char* name;
  const char* file;
  int line;
};

/// "'mlp.forward' (mlp.cpp:40)"
std::string text_of(const Site& site);

}  // namespace sim
