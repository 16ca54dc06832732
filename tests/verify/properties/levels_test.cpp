// Proves that an element of the field that lacks levels alone is told from a wrong one.

#include <gtest/gtest.h>

#include "sim/tensor/ops.h"
#include "sim/tensor/softmax.h"
#include "verify/cases/case_inputs.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace {

using namespace verify;

/// y is `factor`, of which the ranks lack the levels that an exponential lacks: the softmax of one score is 1.
class LackedLevels : public CaseOf<LackedLevels> {
 public:
  explicit LackedLevels(sim::Ratio factor) : factor_(factor) {}
  std::string name() const override { return "lacked_levels"; }
  std::vector<Dimension> dimensions() const override { return {{"rows", 1, 3}}; }
  std::vector<CaseOutput> outputs(const CaseSetting&) const override { return {{"y"}}; }
  std::vector<ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    rank.publish("y", sim::scale(sim::softmax(drawn(rank, s, "x", {s["rows"], 1}), 1, {}), factor_));
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const auto& number = inputs.number();
    return {{"y", reference::matrix_of(number, s["rows"], 1,
                                       [&](Eigen::Index, Eigen::Index) { return number.of(1, 1); })}};
  }

 private:
  sim::Ratio factor_;
};

Judgement judged(sim::Ratio factor) {
  Bench bench;
  return property_named("serial").judge(bench, LackedLevels(factor),
                                        {.dtype = sim::DType::field, .seed = 1, .dimensions = {{"rows", 2}}});
}

TEST(Levels, AnElementThatLacksLevelsAloneIsToldFromAWrongOne) {
  const Judgement lacking = judged({1, 1});
  EXPECT_FALSE(lacking.holds);
  EXPECT_TRUE(lacking.differs_in_levels_alone) << lacking.detail;
  const Judgement wrong = judged({2, 1});
  EXPECT_FALSE(wrong.holds);
  EXPECT_FALSE(wrong.differs_in_levels_alone) << wrong.detail;
}

}  // namespace
