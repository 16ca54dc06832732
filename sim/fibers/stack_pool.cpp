#include "sim/fibers/stack_pool.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/base/error.h"
#include "sim/fibers/sanitizer_fiber.h"

namespace sim {

namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

/// The largest number of stacks in one mapping. A world of 131,072 ranks needs only a few mappings.
constexpr std::size_t kMostInMapping = 16'384;

constexpr std::size_t kLineBytes = 64;
/// The tops of two stacks that follow one another lie this many lines of a page apart. The number is odd, so
/// that all the lines come in turn.
constexpr std::size_t kLinesBetweenTops = 17;

/// Returns the bytes of the page in which the top of stack `number` lies, up to the top. Half a page at least
/// is used, so that most ranks that wait in a call have no second page in use.
std::size_t bytes_of_top_page(std::size_t number) {
  const std::size_t half = page_bytes() / 2;
  return half + number * kLinesBetweenTops * kLineBytes % half;
}

}  // namespace

StackPool::StackPool(std::size_t stack_bytes, bool guarded, std::size_t count)
    : stack_bytes_((stack_bytes + page_bytes() - 1) / page_bytes() * page_bytes()),
      guard_bytes_(guarded ? kGuardBytes : 0),
      guarded_(guarded),
      count_(std::clamp<std::size_t>(count, 1, kMostInMapping)) {}

StackPool::~StackPool() {
  for (const Mapping& mapping : mappings_) {
    // A fiber ends in a frame that never returns, so the sanitizer would keep that frame after the stack is
    // unmapped.
    forget_frames(mapping.begin, mapping.bytes);
    munmap(mapping.begin, mapping.bytes);
  }
}

/// Returns the bytes of a guard, a stack, and the page in which its top lies.
std::size_t StackPool::bytes_of_one() const { return guard_bytes_ + stack_bytes_ + page_bytes(); }

void StackPool::map_more() {
  const std::size_t bytes = bytes_of_one() * count_;
  void* mapping =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    refuse({.code = "stack_memory",
            .option = "--stack-bytes",
            .numbers = fmt::format("{} stacks of {} bytes cannot be mapped: {}", count_, stack_bytes_,
                                   std::strerror(errno)),
            .rule = "the system maps the stacks of all ranks, whether they are used or not",
            .hint = "a smaller --stack-bytes, or fewer ranks"});
  }
  // With huge pages, the first touch of a stack would use as much memory as eight whole stacks.
  madvise(mapping, bytes, MADV_NOHUGEPAGE);
  mappings_.push_back({static_cast<std::byte*>(mapping), bytes});
  next_ = mappings_.back().begin;
  end_ = next_ + bytes;
}

Stack StackPool::take() {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    const Stack stack = free_.back();
    free_.pop_back();
    return stack;
  }
  if (next_ == end_) map_more();
  if (guarded_ && mprotect(next_, guard_bytes_, PROT_NONE) != 0) guarded_ = false;
  const Stack stack{next_ + guard_bytes_, stack_bytes_, bytes_of_top_page(handed_out_++)};
  next_ += bytes_of_one();
  return stack;
}

void StackPool::give_back(const Stack& stack) {
  const std::lock_guard lock(mutex_);
  free_.push_back(stack);
}

}  // namespace sim
