#include "verify/cases/gpt_reference.h"

#include <algorithm>
#include <fmt/format.h>

namespace verify {

std::int64_t tokens_with_loss(const sim::Sample& sample) {
  return std::ranges::count_if(sample.labels, [](auto id) { return id != sim::kIgnoredLabel; });
}

std::string choice_name(std::int64_t step) { return fmt::format("{}{:06}", kChoice, step); }

}  // namespace verify
