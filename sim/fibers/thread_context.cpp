#include "sim/fibers/thread_context.h"

#include <cstring>
#include <fmt/format.h>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/fibers/running_stack.h"
#include "sim/fibers/signal_stack.h"

namespace sim {

ThreadContext::~ThreadContext() { SIM_CHECK(!is_joinable_); }

void ThreadContext::resume() {
  SIM_CHECK(!ended_);
  if (is_joinable_) {
    to_body_.pass();
  } else {
    start();  // A new thread has the baton.
  }
  to_worker_.take();
  if (!ended_) return;
  pthread_join(thread_, nullptr);
  is_joinable_ = false;
}

void ThreadContext::yield() {
  to_worker_.pass();
  to_body_.take();
}

void ThreadContext::run_thread() {
  require_signal_stack();
  const RunningStack running(stack_of_this_thread());
  body_();
  ended_ = true;
  to_worker_.pass();
}

void ThreadContext::start() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setguardsize(&attributes, kGuardBytes);
  const auto run = [](void* context) -> void* {
    static_cast<ThreadContext*>(context)->run_thread();
    return nullptr;
  };
  const int error = pthread_create(&thread_, &attributes, run, this);
  pthread_attr_destroy(&attributes);
  is_joinable_ = error == 0;
  if (is_joinable_) return;
  refuse({.code = "thread_limit",
          .option = fmt::format("--ranks-as threads, rank {}", rank_),
          .numbers = fmt::format("the system starts no thread for it: {}", std::strerror(error)),
          .rule = "every rank has a thread of its own",
          .hint = "--ranks-as fibers, or fewer ranks"});
}

}  // namespace sim
