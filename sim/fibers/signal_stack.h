#pragma once

/// An alternate stack on which a thread handles signals, because a thread whose stack has overflowed cannot
/// handle the signal of the overflow on it.
///
/// Calls   each thread that runs ranks asks for one before it runs them, and keeps it until it ends. Nothing
///         is done if the thread has an alternate stack already, or in a sanitizer build, where signals are
///         the sanitizer's.

namespace sim {

void require_signal_stack();

}  // namespace sim
