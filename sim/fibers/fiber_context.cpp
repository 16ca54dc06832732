#include "sim/fibers/fiber_context.h"

#include <boost/context/preallocated.hpp>
#include <cstring>
#include <cxxabi.h>
#include <memory>
#include <utility>

#include "sim/base/check.h"
#include "sim/fibers/running_stack.h"

namespace sim {

namespace {

/// A stack allocator that does nothing, because the stack belongs to the pool and Boost only borrows it.
struct Borrowed {
  boost::context::stack_context allocate() { return {}; }
  void deallocate(boost::context::stack_context&) noexcept {}
};

}  // namespace

FiberContext::~FiberContext() { CHECK(ended_ || stack_.bottom == nullptr); }

/// Exchanges the exceptions of this thread with those of the side that is suspended.
void FiberContext::exchange_exceptions(void* globals) {
  // The C++ ABI defines the layout of the globals: a pointer, then an unsigned int.
  ExceptionsInFlight before;
  std::memcpy(&before.caught, globals, sizeof(before.caught));
  std::memcpy(&before.uncaught, static_cast<char*>(globals) + sizeof(before.caught), sizeof(before.uncaught));
  std::memcpy(globals, &exceptions_.caught, sizeof(exceptions_.caught));
  std::memcpy(static_cast<char*>(globals) + sizeof(exceptions_.caught), &exceptions_.uncaught,
              sizeof(exceptions_.uncaught));
  exceptions_ = before;
}

boost::context::fiber FiberContext::run_body(boost::context::fiber&& worker) {
  worker_side_ = std::move(worker);
  sanitizer_.entered();
  body_();
  ended_ = true;
  sanitizer_.before_end();
  return std::move(worker_side_);
}

void FiberContext::resume() {
  CHECK(!ended_);
  if (stack_.bottom == nullptr) {
    stack_ = stacks_.take();
    boost::context::stack_context context;
    context.sp = stack_.top();
    context.size = stack_.all_bytes();
    sanitizer_.before_create();
    body_side_ = boost::context::fiber(
        std::allocator_arg, boost::context::preallocated(context.sp, context.size, context), Borrowed(),
        [this](boost::context::fiber&& worker) { return run_body(std::move(worker)); });
    sanitizer_.after_create();
  }
  const RunningStack running(stack_);
  void* const globals = abi::__cxa_get_globals();
  exchange_exceptions(globals);
  sanitizer_.before_resume(stack_.bottom, stack_.all_bytes());
  body_side_ = std::move(body_side_).resume();
  sanitizer_.after_yield();
  exchange_exceptions(globals);
  if (!ended_) return;
  sanitizer_.destroy();
  stacks_.give_back(stack_);
}

void FiberContext::yield() {
  sanitizer_.before_yield();
  worker_side_ = std::move(worker_side_).resume();
  sanitizer_.entered();
}

}  // namespace sim
