#pragma once

/// Informs AddressSanitizer and ThreadSanitizer of the switches between a worker and one fiber. In other
/// builds it does nothing.
///
/// Calls   forget_frames() comes before the memory of a stack is given back to the system.
///         create() comes before the first switch. The worker calls before_resume(), switches, and calls
///         after_yield(). The body calls entered() at its start; at each yield it calls before_yield(),
///         switches, and calls entered(). When it ends it calls before_end() instead of before_yield().
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

/// Whether this is a sanitizer build, in which the signals of faults are left to the sanitizer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Tells AddressSanitizer that this memory holds no stack frames any more.
inline void forget_frames([[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(bottom, bytes);
#endif
}

class SanitizerFiber {
 public:
#if defined(__SANITIZE_ADDRESS__)
  void create() {}
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
  // The worker announces all switches, inlined into its own function: ThreadSanitizer counts the functions
  // that each fiber enters and leaves, and the two counts must be equal.
  void create() { fiber_ = __tsan_create_fiber(0); }
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
  void create() {}
  void destroy() {}
  void before_resume(const void*, std::size_t) {}
  void after_yield() {}
  void entered() {}
  void before_yield() {}
  void before_end() {}
#endif
};

}  // namespace sim
