#pragma once

/// A pool of stacks for fibers. The stacks are parts of large mappings, and are reused when a fiber has
/// ended.
///
/// Shapes  a stack has stack_bytes, rounded up to whole pages, and half a page to a page more. What is more
///         differs from stack to stack, so that their tops lie on different lines of a page: a cache finds a
///         line by its place in the page, and holds only a few lines of the same place. If the pool is
///         guarded, kGuardBytes below each stack are protected: a stack that overflows then stops the
///         process (sim/world/process_end.h) instead of writing into the next stack. A frame larger than the
///         guard may step over it, unless its program is compiled with -fstack-clash-protection. A page uses
///         memory only once it has been touched.
/// Calls   any thread may call take() and give_back().
/// Errors  stack_memory: the system cannot map more stacks.

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
  std::size_t bytes = 0;        // those that were asked for
  std::size_t more_bytes = 0;   // those up to the top
  std::size_t all_bytes() const { return bytes + more_bytes; }
  std::byte* top() const { return bottom + all_bytes(); }
};

class StackPool {
 public:
  /// `count` is the number of stacks that are mapped at once: at first use, and again whenever they run
  /// out. At most 16,384 are mapped at once.
  StackPool(std::size_t stack_bytes, bool guarded, std::size_t count);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  Stack take();
  void give_back(const Stack& stack);
  /// Whether all stacks are guarded. It is false also if the system refused to protect the guard of one.
  bool guarded() const { return guarded_; }

 private:
  struct Mapping {
    std::byte* begin;
    std::size_t bytes;
  };
  void map_more();
  std::size_t bytes_of_one() const;

  std::size_t stack_bytes_;
  std::size_t guard_bytes_;
  bool guarded_;
  std::size_t count_;
  std::mutex mutex_;
  std::vector<Mapping> mappings_;
  std::byte* next_ = nullptr;   // the first part of the latest mapping that was never handed out
  std::byte* end_ = nullptr;    // the end of the latest mapping
  std::size_t handed_out_ = 0;  // parts of all mappings
  std::vector<Stack> free_;     // used last in, first out, because the pages of the latest are warm
};

}  // namespace sim
