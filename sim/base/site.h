#pragma once

/// Where a rank program calls: the call's name in the field's words ("row_parallel_linear.forward"), file and line.
/// Reports, ledgers and records all speak of sites. A Site is made from the name alone, at the call:
///
///   group.all_reduce(output, ReduceOp::sum, "row_parallel_linear.forward");
///
/// The name is a literal, or text that outlives the run.

#include <source_location>

namespace sim {

struct Site {
  Site(const char* site_name, std::source_location location = std::source_location::current())
      : name(site_name == nullptr ? "(no name)" : site_name),
        file(location.file_name()),
        line(static_cast<int>(location.line())) {}

  const char* name;
  const char* file;
  int line;
};

}  // namespace sim
