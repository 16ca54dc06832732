// Where elements that are no numbers come into a run is found for a call that makes them and for a rank that
// gives them, and a run without them has no such place.

#include "verify/explain/no_numbers.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/base/field.h"
#include "tests/defects/with_program.h"
#include "verify/campaign/drawn_settings.h"
#include "verify/cases/case_list.h"
#include "verify/properties/bench.h"

namespace {

using sim::Operation;
using verify::Bench;
using verify::Case;
using verify::CaseSetting;

constexpr int kMaxWorld = 8;

const Case& drawn_case() {
  const verify::CaseList& cases = verify::all_cases();
  return *cases[*rc::gen::inRange<std::size_t>(0, cases.size())];
}

CaseSetting drawn_setting(const Case& the_case) {
  verify::DrawnSettings drawn(the_case, "no numbers", {sim::DType::field},
                              *rc::gen::arbitrary<std::uint32_t>(), kMaxWorld);
  for (int skipped = *rc::gen::inRange(0, 6); skipped > 0; --skipped) drawn.next();
  return drawn.next();
}

RC_GTEST_PROP(NoNumbers, BeginNowhereInARightRun, ()) {
  const Case& the_case = drawn_case();
  const CaseSetting setting = drawn_setting(the_case);
  Bench bench;
  RC_ASSERT(explain_no_numbers(bench, the_case, setting) == "");
}

bool has_result(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::all_gather ||
         operation == Operation::reduce_scatter || operation == Operation::recv;
}

bool is_number(const sim::Field& x) {
  for (std::size_t level = 0; level < sim::kFieldLevels; ++level) {
    if (x.is_live(level)) return true;
  }
  return false;
}

bool is_all_numbers(const sim::Tensor& tensor) {
  std::vector<sim::Field> elements(static_cast<std::size_t>(tensor.count()));
  tensor.device().to_host(tensor, std::as_writable_bytes(std::span(elements)));
  return std::all_of(elements.begin(), elements.end(), is_number);
}

/// The sites of a rank's calls that a planted fault can make return no number: those whose results are
/// numbers. A call may well be given none: the sum of gradients over the tensor-parallel group comes after a
/// reduce_scatter in place, which leaves the other shards unspecified.
std::vector<std::string> sites_of_numbers(Bench& bench, const Case& the_case, const CaseSetting& setting,
                                          int rank) {
  std::vector<std::string> sites;
  bench.run_watched(the_case, setting, verify::WatchedSide::program, [&](const verify::SeenCall& seen) {
    if (seen.rank.id != rank || !seen.is_over || !has_result(seen.call.operation)) return;
    const sim::Tensor& output = seen.call.output;
    if (output.is_none() || output.count() == 0 || output.dtype() != sim::DType::field) return;
    if (is_all_numbers(output)) sites.emplace_back(seen.call.site.name);
  });
  return sites;
}

RC_GTEST_PROP(NoNumbers, BeginAtTheCallThatMakesThem, ()) {
  const Case& the_case = drawn_case();
  const CaseSetting setting = drawn_setting(the_case);
  Bench bench;
  const std::size_t ranks = bench.run(the_case, setting)->ranks.size();
  const int rank = static_cast<int>(*rc::gen::inRange<std::size_t>(0, ranks));
  const std::vector<std::string> sites = sites_of_numbers(bench, the_case, setting, rank);
  RC_PRE(!sites.empty());
  const std::string site = sites[*rc::gen::inRange<std::size_t>(0, sites.size())];
  bench.plant(verify::parsed_faults({fmt::format("{}:nan@rank={}", site, rank)}));
  RC_PRE(bench.run(the_case, setting)->ok());
  const std::string said = explain_no_numbers(bench, the_case, setting);
  RC_LOG() << site << " on rank " << rank << ": " << said << "\n";
  RC_ASSERT(said.find(fmt::format("the result of '{}' on rank {} ", site, rank)) != std::string::npos);
}

TEST(NoNumbers, BeginOnTheRankThatGivesThem) {
  const test::WithProgram forgetful(
      "row_parallel_linear", [](const Case& right, sim::Rank& rank, const CaseSetting& setting) {
        right.run(rank, setting);
        sim::Tensor x = rank.device.empty(setting.dtype, {2});
        if (rank.id != 1) fill(x, 1);  // rank 1 forgets it
        rank.groups.get("tp").all_reduce(x, sim::ReduceOp::sum, "sum.forgotten");
        rank.groups.get("tp").all_reduce(x, sim::ReduceOp::sum, "sum.next");
      });
  verify::DrawnSettings drawn(forgetful, "no numbers", {sim::DType::field}, 0, 4);
  CaseSetting setting = drawn.next();
  while (setting.group_size < 2 || setting.replicas > 1) setting = drawn.next();
  Bench bench;
  const std::string said = explain_no_numbers(bench, forgetful, setting);
  const std::string given = "what 'sum.forgotten' is given on rank 1 has elements that are no numbers, and ";
  EXPECT_EQ(said.find(given + "the result of '"), 0U) << said;
  EXPECT_EQ(said.find(';'), std::string::npos) << said;
}

}  // namespace
