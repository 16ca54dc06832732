#include "sim/fibers/fiber_context.h"

#include <cstring>
#include <cxxabi.h>

#include "sim/base/check.h"

namespace sim {

// The C++ ABI defines the layout of the globals: a pointer, then an unsigned int.

FiberContext::ExceptionsInFlight FiberContext::ExceptionsInFlight::of(const void* globals) {
  ExceptionsInFlight read;
  std::memcpy(&read.caught, globals, sizeof(caught));
  std::memcpy(&read.uncaught, static_cast<const char*>(globals) + sizeof(caught), sizeof(uncaught));
  return read;
}

void FiberContext::ExceptionsInFlight::put_into(void* globals) const {
  std::memcpy(globals, &caught, sizeof(caught));
  std::memcpy(static_cast<char*>(globals) + sizeof(caught), &uncaught, sizeof(uncaught));
}

FiberContext::~FiberContext() { CHECK(ended_ || stack_.bottom == nullptr); }

/// Exchanges the exceptions of this thread with those of the side that is suspended.
void FiberContext::exchange_exceptions(void* globals) {
  const auto before = ExceptionsInFlight::of(globals);
  exceptions_.put_into(globals);
  exceptions_ = before;
}

/// Keeps the exceptions of this body, gives the thread those of the next one, and passes the worker's on.
void FiberContext::pass_exceptions_to(FiberContext& next) {
  void* const globals = abi::__cxa_get_globals();
  const ExceptionsInFlight of_worker = exceptions_;
  exceptions_ = ExceptionsInFlight::of(globals);
  next.exceptions_.put_into(globals);
  next.exceptions_ = of_worker;
}

void FiberContext::run_body(Side worker) {
  worker_side_ = worker;
  sanitizer_.entered();
  body_();
  ended_ = true;
  *last_ = this;
  sanitizer_.before_end();
  switch_to(worker_side_);
  CHECK(false);
}

void FiberContext::resume() {
  CHECK(!ended_);
  if (stack_.bottom == nullptr) {
    stack_ = stacks_.take();
    body_side_ = make_side(stack_.top(), stack_.all_bytes(),
                           [](Switched left) { static_cast<FiberContext*>(left.data)->run_body(left.fctx); });
    sanitizer_.create();
  }
  const RunningStack running(stack_);
  void* const globals = abi::__cxa_get_globals();
  FiberContext* last = nullptr;  // the body that comes back: this one, or one that has taken over from it
  last_ = &last;
  exchange_exceptions(globals);
  sanitizer_.before_resume(stack_.bottom, stack_.all_bytes());
  const Side from = switch_to(body_side_, this).fctx;
  sanitizer_.after_yield();
  last->body_side_ = from;
  last->exchange_exceptions(globals);
  if (!last->ended_) return;
  last->sanitizer_.destroy();
  last->stacks_.give_back(last->stack_);
}

void FiberContext::yield() {
  *last_ = this;
  sanitizer_.before_yield();
  came_back(switch_to(worker_side_).fctx);
  sanitizer_.entered();
}

}  // namespace sim
