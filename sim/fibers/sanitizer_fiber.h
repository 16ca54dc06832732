#pragma once

/// Tells AddressSanitizer and ThreadSanitizer about switches between a worker and one fiber; does nothing in
/// other builds.
///
/// Calls   forget_frames before a stack's memory is given back to the system.
///         before_create and after_create around what makes the fiber: Boost enters it there for the first
///         time, and comes back. Then before_resume, switch, after_yield on the worker's side; entered at the
///         start of the body; before_yield, switch, entered on the body's side; before_end instead of
///         before_yield, for the last time.
/// Source  sanitizer/common_interface_defs.h, sanitizer/tsan_interface.h.

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace sim {

/// No frames lie there any more.
inline void forget_frames([[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(bottom, bytes);
#endif
}

class SanitizerFiber {
 public:
#if defined(__SANITIZE_ADDRESS__)
  void before_create() {}
  void after_create() {}
  void destroy() {}
  void before_resume(const void* bottom, std::size_t bytes) {
    __sanitizer_start_switch_fiber(&worker_fake_, bottom, bytes);
  }
  void after_yield() { __sanitizer_finish_switch_fiber(worker_fake_, nullptr, nullptr); }
  void entered() { __sanitizer_finish_switch_fiber(body_fake_, &worker_bottom_, &worker_bytes_); }
  void before_yield() { __sanitizer_start_switch_fiber(&body_fake_, worker_bottom_, worker_bytes_); }
  void before_end() { __sanitizer_start_switch_fiber(nullptr, worker_bottom_, worker_bytes_); }

 private:
  void* worker_fake_ = nullptr;
  void* body_fake_ = nullptr;
  const void* worker_bottom_ = nullptr;
  std::size_t worker_bytes_ = 0;
#elif defined(__SANITIZE_THREAD__)
  // All switches are told by the worker, and from within its own function: ThreadSanitizer counts functions
  // entered and left, for each fiber, and the two must balance.
  [[gnu::always_inline]] void before_create() {
    fiber_ = __tsan_create_fiber(0);
    before_resume(nullptr, 0);
  }
  [[gnu::always_inline]] void after_create() { after_yield(); }
  void destroy() { __tsan_destroy_fiber(fiber_); }
  [[gnu::always_inline]] void before_resume(const void*, std::size_t) {
    worker_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, 0);
  }
  [[gnu::always_inline]] void after_yield() { __tsan_switch_to_fiber(worker_, 0); }
  void entered() {}
  void before_yield() {}
  void before_end() {}

 private:
  void* fiber_ = nullptr;
  void* worker_ = nullptr;
#else
  void before_create() {}
  void after_create() {}
  void destroy() {}
  void before_resume(const void*, std::size_t) {}
  void after_yield() {}
  void entered() {}
  void before_yield() {}
  void before_end() {}
#endif
};

}  // namespace sim
