#pragma once

/// CHECK(condition): an invariant of our own code. When it does not hold, the bug is ours: print it, abort.
///
/// Errors  aborts the process, in every build type. Never used for input: bad input is a refusal (error.h).

namespace sim {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace sim

#define CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::sim::check_failed(#condition, __FILE__, __LINE__))
