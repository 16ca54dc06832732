// What is found of few elements is tried with other seeds, each of which has a budget of its own.

#include "verify/explain/explained_tensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>

#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"
#include "verify/cases/case_inputs.h"
#include "verify/properties/bench.h"

namespace {

using namespace verify;

/// Its output is z times a matrix, plus w; its ranks count z twice. With one seed the reference also reads
/// more inputs than a budget can try, which are tried first.
class ManyInputs : public CaseOf<ManyInputs> {
 public:
  static constexpr std::uint64_t kSeed = 5, kSeedOfMany = kSeed + 1;
  std::string name() const override { return "many_inputs"; }
  std::vector<Dimension> dimensions() const override { return {}; }
  std::vector<CaseOutput> outputs(const CaseSetting&) const override { return {{"y"}}; }
  std::vector<ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const sim::Tensor z = sim::scale(drawn(rank, s, "z", {1, 2}), {2, 1});
    rank.publish("y",
                 sim::add(sim::matmul(z, drawn(rank, s, "z.matrix", {2, 2})), drawn(rank, s, "w", {1, 2})));
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    constexpr int kMany = 400;
    ++runs_[s.seed];
    for (int i = 0; i < (s.seed == kSeedOfMany ? kMany : 0); ++i) inputs.matrix(fmt::format("a.{}", i), 1, 1);
    const auto z = inputs.matrix("z", 1, 2), matrix = inputs.matrix("z.matrix", 2, 2),
               w = inputs.matrix("w", 1, 2);
    return {{"y", reference::matrix_of(inputs.number(), 1, 2, [&](Eigen::Index, Eigen::Index j) {
               return z(0, 0) * matrix(0, j) + z(0, 1) * matrix(1, j) + w(0, j);
             })}};
  }
  int runs(std::uint64_t seed) const { return runs_[seed]; }

 private:
  mutable std::map<std::uint64_t, int> runs_;  // of the reference, by seed
};

TEST(ExplainedTensors, ASeedWhoseBudgetIsUsedUpDeniesNothing) {
  const ManyInputs the_case;
  const CaseSetting setting{.dtype = sim::DType::field, .seed = ManyInputs::kSeed};
  Bench bench;
  const auto report = bench.run(the_case, setting);
  const std::string text = explain_tensors(bench, the_case, setting, *report);
  EXPECT_EQ(text.find("y: z counted twice"), 0U) << text;
  constexpr int kBesides = 5;  // runs of the reference that are no experiments
  EXPECT_GE(the_case.runs(ManyInputs::kSeedOfMany), ExperimentBudget().left);
  EXPECT_LE(the_case.runs(ManyInputs::kSeedOfMany), ExperimentBudget().left + kBesides);
  EXPECT_GE(the_case.runs(ManyInputs::kSeedOfMany + 3), 1);
}

}  // namespace
