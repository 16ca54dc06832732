#include "verify/vocabulary/pipeline_chunks.h"

#include "sim/base/error.h"
#include "sim/layout/layer_layout.h"
#include "verify/vocabulary/hybrid_pattern.h"
#include "verify/vocabulary/layout_list.h"

namespace verify {

std::optional<std::int64_t> chunks_of_stages(const std::string& layout, const std::string& pattern,
                                             std::int64_t ranks) {
  try {
    const std::int64_t stages = layout.empty() ? std::ssize(parse_hybrid_pattern(pattern).segments)
                                               : sim::stages_of_layout(layout_string(layout));
    const bool is_said = !layout.empty() || stages > 1;
    return is_said && ranks > 0 && stages % ranks == 0 ? std::optional(stages / ranks) : std::nullopt;
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}

}  // namespace verify
