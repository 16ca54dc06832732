#include "verify/cases/case.h"

#include <algorithm>
#include <cstddef>

#include "sim/tensor/checks.h"
#include "verify/cases/case_list.h"

namespace verify {

int CaseOutput::part(int rank, int group_size) const {
  if (!part_of.empty()) return part_of[static_cast<std::size_t>(rank)];
  return placement == Placement::rows || placement == Placement::columns ? rank % group_size : 0;
}

int CaseOutput::parts(int group_size) const {
  if (!part_of.empty()) return *std::ranges::max_element(part_of) + 1;
  return placement == Placement::rows || placement == Placement::columns ? group_size : 1;
}

sim::ParallelSizes Case::sizes(const CaseSetting& setting) const {
  return {.world_size = std::int64_t{setting.group_size} * setting.replicas,
          .tensor_model_parallel_size = ranks() == Ranks::tensor_parallel ? setting.group_size : 1};
}

std::vector<NamedNumber> Case::factors(const CaseSetting& setting) const {
  std::vector<NamedNumber> numbers;
  for (const Dimension& dimension : dimensions()) {
    if (dimension.least > 0) numbers.push_back({dimension.name, setting[dimension.name]});
  }
  return numbers;
}

ExpectedOfRank expected_runs(const Case& the_case, const CaseSetting& setting) {
  const bool has_tp = the_case.ranks() != Ranks::data_parallel;
  return [expected = the_case.expected_by_rank(setting), setting, has_tp](int rank) {
    ExpectedRun run = expected(rank);
    if (setting.group_size == 1) run.calls.clear();
    for (ExpectedCall& call : run.calls) {
      if (call.dtype != sim::DType::i32)
        call.dtype = call.of_sums ? sim::sum_dtype(setting.dtype) : setting.dtype;
      if (call.group == "tp" && !has_tp) call.group = "dp";
      call.of_sums = false;  // a CallRecord, with which this is compared, does not say it
    }
    return run;
  };
}

std::vector<ExpectedCall> expected_calls(const Case& the_case, const CaseSetting& setting, int rank) {
  return expected_runs(the_case, setting)(rank).calls;
}

const Case* find_case(const std::string& name) {
  const auto& cases = all_cases();
  const auto found = std::ranges::find_if(cases, [&](const auto& c) { return c->name() == name; });
  return found == cases.end() ? nullptr : found->get();
}

}  // namespace verify
