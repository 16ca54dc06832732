#include "verify/memory/stage_memory.h"

namespace verify {

std::span<const MemoryPart> memory_parts() {
  static constexpr MemoryPart kParts[] = {
      {"parameters", &StageMemory::parameters, true},
      {"gradients", &StageMemory::gradients, true},
      {"main_parameters", &StageMemory::main_parameters, true},
      {"optimizer_moments", &StageMemory::optimizer_moments, true},
      {"gradient_copies", &StageMemory::gradient_copies, true},
      {"workspace", &StageMemory::workspace, true},
      {"communication_buffers", &StageMemory::communication_buffers, true},
      {"activations", &StageMemory::activations, false},
      {"attention_mask", &StageMemory::attention_mask, false},
      {"logits_and_loss", &StageMemory::logits_and_loss, false},
      {"temporary", &StageMemory::temporary, false},
  };
  return kParts;
}

std::int64_t StageMemory::static_bytes() const {
  std::int64_t bytes = 0;
  for (const MemoryPart& part : memory_parts())
    if (part.is_static) bytes += this->*part.bytes;
  return bytes;
}

std::int64_t StageMemory::peak_bytes() const {
  std::int64_t bytes = 0;
  for (const MemoryPart& part : memory_parts()) bytes += this->*part.bytes;
  return bytes;
}

}  // namespace verify
