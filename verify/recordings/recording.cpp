#include "verify/recordings/recording.h"

#include <functional>

namespace verify {

namespace {

constexpr std::size_t kFirstSlots = 64;  // a power of two, as every number of slots

std::size_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

}  // namespace

InternedTexts::InternedTexts() : slots_(kFirstSlots) { add(""); }

std::uint32_t InternedTexts::add(std::string_view text) {
  if (2 * texts_.size() >= slots_.size()) grow();
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash_of(text) & mask;; at = (at + 1) & mask) {
    if (slots_[at] == 0) {
      texts_.emplace_back(text);
      slots_[at] = static_cast<std::uint32_t>(texts_.size());
      return slots_[at] - 1;
    }
    if (texts_[slots_[at] - 1] == text) return slots_[at] - 1;
  }
}

void InternedTexts::grow() {
  std::vector<std::uint32_t> slots(2 * slots_.size());
  const std::size_t mask = slots.size() - 1;
  for (std::size_t id = 0; id < texts_.size(); ++id) {
    std::size_t at = hash_of(texts_[id]) & mask;
    while (slots[at] != 0) at = (at + 1) & mask;
    slots[at] = static_cast<std::uint32_t>(id + 1);
  }
  slots_ = std::move(slots);
}

}  // namespace verify
