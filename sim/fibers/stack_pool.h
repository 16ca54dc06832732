#pragma once

/// Stacks for fibers, cut from large mappings and handed out again when a fiber has ended.
///
/// Shapes  stack_bytes each, rounded up to whole pages; below each lie kGuardBytes that nobody may touch,
///         when guarded: a stack that overflows then stops the process (stack_overflow.h) instead of writing
///         into its neighbour, unless one frame is larger than that. Pages cost memory only once they are
///         touched.
/// Calls   take and give_back from any thread.
/// Errors  stack_memory, when the system has no room.

#include <cstddef>
#include <mutex>
#include <vector>

namespace sim {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::size_t kDefaultStackBytes = std::size_t{512} << 10;  // instrumented frames are larger
#else
inline constexpr std::size_t kDefaultStackBytes = std::size_t{256} << 10;
#endif

inline constexpr std::size_t kGuardBytes = std::size_t{1} << 20;

struct Stack {
  std::byte* bottom = nullptr;  // the lowest usable address
  std::size_t bytes = 0;
  std::byte* top() const { return bottom + bytes; }
};

class StackPool {
 public:
  /// Maps this many stacks at once at first use, and as many again whenever they run out.
  StackPool(std::size_t stack_bytes, bool guarded, std::size_t count);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  Stack take();
  void give_back(const Stack& stack);
  /// False as well when the system refused to guard one.
  bool guarded() const { return guarded_; }

 private:
  struct Mapping {
    std::byte* begin;
    std::size_t bytes;
  };
  void map_more();

  std::size_t stack_bytes_;
  std::size_t guard_bytes_;
  bool guarded_;
  std::size_t count_;
  std::mutex mutex_;
  std::vector<Mapping> mappings_;
  std::byte* next_ = nullptr;  // of the latest mapping: the first part that was never handed out
  std::byte* end_ = nullptr;
  std::vector<Stack> free_;  // the last one given back is the first to go: its pages are warm
};

}  // namespace sim
