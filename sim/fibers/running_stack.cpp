#include "sim/fibers/running_stack.h"

#include <pthread.h>

#include "sim/base/check.h"

namespace sim {

bool is_in_guard(const Stack& stack, const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  return stack.bottom != nullptr && at < stack.bottom && at >= stack.bottom - kGuardBytes;
}

Stack stack_of_this_thread() {
  pthread_attr_t attributes;
  SIM_CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
  void* bottom = nullptr;
  std::size_t bytes = 0;
  pthread_attr_getstack(&attributes, &bottom, &bytes);
  pthread_attr_destroy(&attributes);
  return {static_cast<std::byte*>(bottom), bytes};
}

}  // namespace sim
