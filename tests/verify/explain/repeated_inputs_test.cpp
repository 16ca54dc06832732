// A call that is given the input of the call before it is found, on the ranks that have it and nowhere else,
// and an explanation names it. The same run without the fault has none.

#include "verify/explain/repeated_inputs.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "verify/campaign/drawn_settings.h"
#include "verify/cases/case_list.h"
#include "verify/explain/explanation.h"
#include "verify/properties/bench.h"

namespace {

using verify::Bench;
using verify::Case;
using verify::CaseSetting;
using verify::RepeatedInput;

/// A layer over two tensor-parallel ranks or more, all of whose linear layers call.
CaseSetting drawn_setting(const Case& the_case) {
  verify::DrawnSettings drawn(the_case, "repeated inputs", {sim::DType::field},
                              *rc::gen::arbitrary<std::uint32_t>(), 8);
  CaseSetting setting = drawn.next();
  while (setting.group_size == 1 || setting.replicas != 1) setting = drawn.next();
  setting.dimensions["sequence_parallel"] = 1;
  setting.dimensions["pass"] = 2;
  return setting;
}

RC_GTEST_PROP(RepeatedInputs, AreThoseOfAStaleCall, (bool on_one_rank)) {
  const Case& layer = *verify::find_case("transformer_layer");
  const CaseSetting setting = drawn_setting(layer);
  Bench bench;
  // Of few elements a norm leaves little, and two layers may well be given the same.
  RC_PRE(repeated_inputs(bench, layer, setting).empty());

  const std::string site = *rc::gen::elementOf(
      std::vector<std::string>{"column_parallel_linear.forward", "row_parallel_linear.forward"});
  bench.plant({verify::parsed_fault(site + (on_one_rank ? ":stale@place=1" : ":stale"))});
  const std::vector<RepeatedInput> repeated = repeated_inputs(bench, layer, setting);
  RC_ASSERT(repeated.size() == 1U);
  RC_ASSERT(repeated.front().site == site);
  RC_ASSERT(repeated.front().call == 1);
  if (on_one_rank) RC_ASSERT(repeated.front().ranks == std::set<int>{1});
  if (!on_one_rank) RC_ASSERT(repeated.front().ranks.size() == static_cast<std::size_t>(setting.group_size));
}

TEST(RepeatedInputs, AreNamedByTheExplanation) {
  const Case& layer = *verify::find_case("transformer_layer");
  verify::DrawnSettings drawn(layer, "repeated inputs", {sim::DType::field}, 0, 8);
  CaseSetting setting = drawn.next();
  while (setting.group_size == 1 || setting["pass"] != 2) setting = drawn.next();
  Bench bench;
  bench.plant({verify::parsed_fault("row_parallel_linear.forward:stale")});
  EXPECT_NE(
      explanation(bench, layer, verify::all_properties().front(), setting)
          .find("call 1 of 'row_parallel_linear.forward' on all ranks has the input of the call before it"),
      std::string::npos);
}

}  // namespace
