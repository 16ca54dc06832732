// Where elements that are no numbers come into a run is found for a call that makes them and for a rank that
// gives them, and a run without them has no such place.

#include "verify/properties/no_numbers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/defects/with_program.h"
#include "verify/cases/case_list.h"
#include "verify/properties/drawn_settings.h"

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

/// The calls of a rank whose result a planted fault can make no number.
std::vector<sim::CallRecord> calls_with_a_result(const sim::RankReport& rank) {
  std::vector<sim::CallRecord> calls;
  for (const sim::CallRecord& call : rank.calls) {
    const bool has_result = call.operation == Operation::all_reduce ||
                            call.operation == Operation::all_gather ||
                            call.operation == Operation::reduce_scatter || call.operation == Operation::recv;
    if (has_result && call.group->size() > 1 && call.count > 0 && call.dtype == sim::DType::field)
      calls.push_back(call);
  }
  return calls;
}

RC_GTEST_PROP(NoNumbers, BeginAtTheCallThatMakesThem, ()) {
  const Case& the_case = drawn_case();
  const CaseSetting setting = drawn_setting(the_case);
  Bench bench;
  const auto run = bench.run(the_case, setting);
  const sim::RankReport& rank = run->ranks[*rc::gen::inRange<std::size_t>(0, run->ranks.size())];
  const std::vector<sim::CallRecord> calls = calls_with_a_result(rank);
  RC_PRE(!calls.empty());
  const std::string site = calls[*rc::gen::inRange<std::size_t>(0, calls.size())].site.name;
  bench.plant(verify::parsed_faults({fmt::format("{}:nan@rank={}", site, rank.rank)}));
  RC_PRE(bench.run(the_case, setting)->ok());
  const std::string said = explain_no_numbers(bench, the_case, setting);
  RC_LOG() << said;
  RC_ASSERT(said.find(fmt::format("the result of '{}' on rank {} ", site, rank.rank)) != std::string::npos);
}

TEST(NoNumbers, BeginOnTheRankThatGivesThem) {
  const test::WithProgram poisoned("row_parallel_linear",
                                   [](const Case& right, sim::Rank& rank, const CaseSetting& setting) {
                                     right.run(rank, setting);
                                     sim::Tensor x = sim::filled(rank.device, setting.dtype, {2}, 1);
                                     if (rank.id == 1) rank.device.poison(x);
                                     rank.groups.get("tp").all_reduce(x, sim::ReduceOp::sum, "poisoned.call");
                                     rank.groups.get("tp").all_reduce(x, sim::ReduceOp::sum, "poisoned.next");
                                   });
  verify::DrawnSettings drawn(poisoned, "no numbers", {sim::DType::field}, 0, 4);
  CaseSetting setting = drawn.next();
  while (setting.group_size < 2 || setting.replicas > 1) setting = drawn.next();
  Bench bench;
  const std::string said = explain_no_numbers(bench, poisoned, setting);
  const std::string given = "what 'poisoned.call' is given on rank 1 has elements that are no numbers, and ";
  EXPECT_EQ(said.find(given + "the result of '"), 0U) << said;
  EXPECT_EQ(said.find(';'), std::string::npos) << said;
}

}  // namespace
