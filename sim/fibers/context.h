#pragma once

/// A rank's own thread of control: a body that a worker resumes, and that yields where it has to wait.
///
///   fiber    a stack of its own on the worker's thread; a switch costs tens of nanoseconds
///   thread   the twin that debuggers and ThreadSanitizer understand: a thread of the system, with a baton
///
/// Calls   the body starts at the first resume(). It is resumed by one worker at a time. A context is
///         destroyed when it has ended or was never resumed.
/// Errors  stack_memory, thread_limit: at the first resume(), which then has not started it. CHECK: the body
///         lets no exception out.

#include <functional>
#include <memory>

#include "sim/fibers/stack_pool.h"

namespace sim {

enum class ContextKind { fiber, thread };

class Context {
 public:
  virtual ~Context() = default;
  /// By a worker: runs the body until it yields or ends.
  virtual void resume() = 0;
  /// By the body: back to the worker, until the next resume().
  virtual void yield() = 0;
  virtual bool started() const = 0;
  virtual bool ended() const = 0;
};

/// `rank` is for messages.
std::unique_ptr<Context> make_context(ContextKind kind, StackPool& stacks, int rank,
                                      std::function<void()> body);

}  // namespace sim
