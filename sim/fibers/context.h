#pragma once

/// The thread of control of one rank. A worker resumes the body, and the body yields where it has to wait.
///
///   fiber    the body has its own stack and runs on the worker's thread; a switch costs tens of nanoseconds
///   thread   the body runs on an operating system thread of its own, and a baton lets only one side run. It
///            behaves as the fiber does, and debuggers and ThreadSanitizer understand it
///
/// Calls   the body starts at the first resume(). One worker at a time may resume it. A context may be
///         destroyed only when its body has ended or was never resumed.
/// Errors  stack_memory, thread_limit: thrown by the first resume(), and the body has then not started. The
///         body must let no exception out.

#include <functional>
#include <memory>

#include "sim/fibers/stack_pool.h"

namespace sim {

enum class ContextKind { fiber, thread };

class Context {
 public:
  virtual ~Context() = default;
  /// Runs the body until it yields or ends. Workers call this.
  virtual void resume() = 0;
  /// Returns control to the worker until the next resume(). The body calls this.
  virtual void yield() = 0;
  virtual bool started() const = 0;
  virtual bool ended() const = 0;
};

/// Makes a context for a body. `rank` is used in messages only.
std::unique_ptr<Context> make_context(ContextKind kind, StackPool& stacks, int rank,
                                      std::function<void()> body);

}  // namespace sim
