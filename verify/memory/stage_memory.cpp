#include "verify/memory/stage_memory.h"

#include <algorithm>

namespace verify {

std::span<const MemoryPart> memory_parts() {
  static constexpr MemoryPart kParts[] = {
      {"parameters", &StageMemory::parameters, true, true},
      {"gradients", &StageMemory::gradients, true, true},
      {"main_parameters", &StageMemory::main_parameters, true, true},
      {"optimizer_moments", &StageMemory::optimizer_moments, true, true},
      {"gradient_copies", &StageMemory::gradient_copies, true, false},
      {"workspace", &StageMemory::workspace, true, true},
      {"placeholder_gradients", &StageMemory::placeholder_gradients, true, true},
      {"communication_buffers", &StageMemory::communication_buffers, true, true},
      {"activations", &StageMemory::activations, false, true},
      {"attention_mask", &StageMemory::attention_mask, false, true},
      {"logits_and_loss", &StageMemory::logits_and_loss, false, true},
      {"temporary", &StageMemory::temporary, false, true},
  };
  return kParts;
}

namespace {

template <typename Counts>
std::int64_t sum_of(const StageMemory& memory, const Counts& counts) {
  std::int64_t bytes = 0;
  for (const MemoryPart& part : memory_parts())
    if (counts(part)) bytes += memory.*part.bytes;
  return bytes;
}

}  // namespace

std::int64_t StageMemory::static_bytes() const {
  return sum_of(*this, [](const MemoryPart& part) { return part.is_static; });
}

std::int64_t StageMemory::step_bytes() const {
  return sum_of(*this, [](const MemoryPart& part) { return part.is_in_step; });
}

std::int64_t StageMemory::passing_bytes() const {
  return sum_of(*this, [](const MemoryPart& part) { return !part.is_static; });
}

std::int64_t StageMemory::peak_bytes() const { return std::max(static_bytes(), step_bytes()); }

}  // namespace verify
