#include "sim/fibers/context.h"

#include <utility>

#include "sim/fibers/fiber_context.h"
#include "sim/fibers/thread_context.h"

namespace sim {

std::unique_ptr<Context> make_context(ContextKind kind, StackPool& stacks, int rank,
                                      std::function<void()> body) {
  if (kind == ContextKind::thread) return std::make_unique<ThreadContext>(rank, std::move(body));
  return std::make_unique<FiberContext>(stacks, std::move(body));
}

}  // namespace sim
