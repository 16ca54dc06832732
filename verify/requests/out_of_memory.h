#pragma once

/// Reads what PyTorch says of an allocation that failed, or the size of it alone.
///
/// Layout  "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 3 has a
///         total capacity of 79.10 GiB of which 5.10 GiB is free. ... this process has 74.00 GiB memory in
///         use. Of the allocated memory 71.00 GiB is allocated by PyTorch, and 1.20 GiB is reserved by
///         PyTorch but unallocated." Versions before 2.1 say "(GPU 3; 79.10 GiB total capacity; 71.00 GiB
///         already allocated; 5.10 GiB free; 72.20 GiB reserved in total by PyTorch)". A log may hold more
///         around it, and break it; of several messages the first one counts.
/// Exact   PyTorch asks the GPU for 2 MiB where a tensor of up to 1 MiB finds no room, for 20 MiB where one
///         of less than 10 MiB does, and else for the tensor's size in whole 2 MiB; it says so with two
///         decimals, in MiB up to 1 GiB.
/// Errors  out_of_memory_text: a text that is neither.
/// Source  PyTorch, c10/cuda/CUDACachingAllocator.cpp (format_size, get_allocation_size).

#include <cstdint>
#include <optional>
#include <string>

namespace verify {

/// Where the memory of the GPU was, in bytes.
struct FullGpu {
  std::int64_t capacity = 0;
  std::int64_t free = 0;
  std::int64_t in_tensors = 0;
  std::int64_t unused = 0;   // kept by PyTorch's allocator
  std::int64_t outside = 0;  // of the process, outside of that allocator
  std::int64_t others = 0;   // of other processes; 0 where a message does not tell them from `outside`

  /// Memory free for tensors, contiguous or not.
  std::int64_t for_tensors() const { return in_tensors + unused + free; }
};

struct OutOfMemory {
  std::string asked;  // as PyTorch writes it: "20.00 GiB"
  std::int64_t asked_bytes = 0;
  std::optional<int> rank;     // where each line of a log begins with it
  std::optional<FullGpu> gpu;  // where the text says it

  /// Whether the size says nothing, because PyTorch asks for so much in place of any small tensor.
  bool is_small() const { return asked == "2.00 MiB" || asked == "20.00 MiB"; }
  /// Whether PyTorch asks for this size where a tensor of this many bytes finds no room.
  bool may_be(std::int64_t bytes) const;
};

/// Returns what the text of --out-of-memory says.
OutOfMemory out_of_memory(const std::string& text);

}  // namespace verify
