#include "sim/world/context.h"

#include <utility>

#include "sim/world/fiber_context.h"
#include "sim/world/thread_context.h"

namespace sim {

std::unique_ptr<Context> make_context(ContextKind kind, StackPool& stacks, int rank,
                                      std::function<void()> body) {
  if (kind == ContextKind::thread) return std::make_unique<ThreadContext>(rank, std::move(body));
  return std::make_unique<FiberContext>(stacks, rank, std::move(body));
}

}  // namespace sim
