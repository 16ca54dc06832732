#pragma once

/// SIM_CHECK(condition) states an invariant of our own code. If the condition does not hold, the bug is ours:
/// SIM_CHECK prints it and aborts.
///
/// Errors  aborts the process, in every build type. SIM_CHECK is never used for input: bad input is a refusal
///         (error.h).

namespace sim {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace sim

#define SIM_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::sim::check_failed(#condition, __FILE__, __LINE__))
