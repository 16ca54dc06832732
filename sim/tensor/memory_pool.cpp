#include "sim/tensor/memory_pool.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <new>

#include "sim/base/error.h"

namespace sim {

namespace {

/// The bytes of the first slab of a lane. Each of the next four has twice the bytes of the one before, and
/// later ones have those of the fifth: so a pool of a few small blocks stays small.
constexpr std::size_t kFirstSlabBytes = std::size_t{1} << 12;
constexpr std::size_t kDoublings = 4;
/// The bytes of the last size class. No machine has more memory.
constexpr std::size_t kLargestBlock = std::size_t{1} << 46;
/// The number of size classes for blocks of up to 2^12 bytes, which are cut from slabs.
constexpr std::size_t kSlabClasses = std::size_t{4} * 12;

struct SizeClass {
  std::size_t index;
  std::size_t bytes;
};

/// There are four classes per octave: 512 < bytes <= 1,024 has the classes of 640, 768, 896 and 1,024
/// bytes.
SizeClass size_class(std::size_t bytes) {
  const std::size_t wanted = std::max(bytes, MemoryPool::kAlignment);
  const auto octave =
      static_cast<std::size_t>(std::bit_width(wanted - 1) - 1);  // 2^octave < wanted <= 2^(octave + 1)
  const std::size_t base = std::size_t{1} << octave;
  const std::size_t step = std::max(base / 4, MemoryPool::kAlignment);  // a power of two, as base is
  const std::size_t rounded = (wanted + step - 1) & ~(step - 1);
  return {octave * 4 + ((rounded - base) * 4 >> octave) - 1, rounded};
}

[[noreturn]] void refuse_memory(std::size_t bytes) {
  refuse({.code = "out_of_memory",
          .option = "tensor",
          .numbers = fmt::format("a block of {} bytes could not be allocated", bytes),
          .rule = "the tensors of all ranks fit together into the memory of this machine",
          .hint = "smaller tensors, or fewer ranks"});
}

class MachineMemory : public BlockSource {
 public:
  std::byte* take(std::size_t bytes) override {
    void* block = ::operator new (bytes, std::align_val_t{MemoryPool::kAlignment}, std::nothrow);
    if (block == nullptr) refuse_memory(bytes);
    return static_cast<std::byte*>(block);
  }
  void give_back(std::byte* block) override {
    ::operator delete (block, std::align_val_t{MemoryPool::kAlignment});
  }
};

}  // namespace

MemoryPool::MemoryPool() : source_(std::make_unique<MachineMemory>()) {}

MemoryPool::~MemoryPool() {
  for (Lane& lane : lanes_) {
    for (std::size_t index = kSlabClasses; index < lane.free.size(); ++index) {
      for (std::byte* block : lane.free[index]) source_->give_back(block);
    }
    for (std::byte* slab : lane.slabs) source_->give_back(slab);
  }
}

std::byte* MemoryPool::cut_from_slab(Lane& lane, std::size_t bytes) {
  if (lane.slab_left < bytes) {
    const std::size_t doublings = std::min(lane.slabs.size(), kDoublings);
    lane.slabs.push_back(source_->take(kFirstSlabBytes << doublings));
    lane.slab_left = kFirstSlabBytes << doublings;
  }
  lane.slab_left -= bytes;
  return lane.slabs.back() + lane.slab_left;
}

std::byte* MemoryPool::take(std::size_t bytes, std::size_t lane_index) {
  if (bytes > kLargestBlock) refuse_memory(bytes);
  const SizeClass wanted = size_class(bytes);
  Lane& lane = lanes_[lane_index % kLanes];
  {
    const std::lock_guard lock(lane.mutex);
    if (lane.free.size() <= wanted.index) lane.free.resize(wanted.index + 1);
    std::vector<std::byte*>& free = lane.free[wanted.index];
    if (!free.empty()) {
      std::byte* block = free.back();
      free.pop_back();
      return block;
    }
    if (wanted.index < kSlabClasses) return cut_from_slab(lane, wanted.bytes);
  }
  return source_->take(wanted.bytes);
}

void MemoryPool::give_back(std::byte* block, std::size_t bytes, std::size_t lane_index) {
  Lane& lane = lanes_[lane_index % kLanes];
  const std::lock_guard lock(lane.mutex);
  lane.free[size_class(bytes).index].push_back(block);
}

}  // namespace sim
