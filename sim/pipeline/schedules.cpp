#include "sim/pipeline/schedules.h"

#include <array>
#include <fmt/format.h>

#include "sim/base/error.h"

namespace sim {

std::span<const NamedSchedule> all_schedules() {
  static constexpr std::array<NamedSchedule, 4> kSchedules = {{
      {"none", no_pipelining, false},
      {"gpipe", gpipe, false},
      {"1f1b", one_forward_one_backward, false},
      {"interleaved", interleaved, true},
  }};
  return kSchedules;
}

void require_not_interleaved(const PipelineShape& shape, int rank, const char* name) {
  check(shape, rank);
  if (!shape.is_interleaved()) return;
  refuse({.code = "not_interleaved",
          .option = "--virtual-pipeline-model-parallel-size",
          .numbers = fmt::format("{} chunks on a rank, given to the schedule {}", shape.chunks(), name),
          .rule = "only 1f1b has an interleaved form",
          .hint = "leave it out, or --schedule 1f1b"});
}

}  // namespace sim
