// What is found of few elements is tried with other seeds, each of which has a budget of its own.

#include "verify/properties/explained_tensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>

#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"
#include "verify/cases/case_inputs.h"

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

/// Keeps elements by a mask that its option chooses; its ranks have the mask of another option.
class MaskedCase : public CaseOf<MaskedCase> {
 public:
  static constexpr std::int64_t kElements = 3;
  static std::vector<std::int64_t> mask(const CaseSetting& s, std::int64_t option) {
    return drawn_ids(s, fmt::format("mask.{}", option), kElements, 2);
  }
  std::string name() const override { return "masked"; }
  std::vector<Dimension> dimensions() const override { return {{"option", 0, 2}}; }
  std::vector<CaseOutput> outputs(const CaseSetting&) const override { return {{"y"}}; }
  std::vector<ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    constexpr std::int64_t kOfRanks = 7;
    const sim::Tensor x = drawn(rank, s, "x", {1, kElements});
    const sim::Tensor y = sim::filled(rank.device, s.dtype, {1, kElements}, 0);
    for (std::int64_t i = 0; i < kElements; ++i) {
      sim::Tensor to = y.flat().rows(i, i + 1);
      if (mask(s, kOfRanks)[static_cast<std::size_t>(i)] == 1) rank.device.copy(x.flat().rows(i, i + 1), to);
    }
    rank.publish("y", y);
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const auto x = inputs.matrix("x", 1, kElements);
    const auto kept = mask(s, s["option"]);
    return {{"y", reference::matrix_of(inputs.number(), 1, kElements, [&](Eigen::Index, Eigen::Index j) {
               return kept[static_cast<std::size_t>(j)] == 1 ? x(0, j) : inputs.number().of(0, 1);
             })}};
  }
};

TEST(ExplainedTensors, AMaskThatIsThatOfAnotherOptionByChanceIsNotExplainedByIt) {
  const MaskedCase the_case;
  constexpr std::int64_t kOfRanks = 7;
  CaseSetting setting{.dtype = sim::DType::field};
  setting.dimensions["option"] = 1;
  const auto same = [&](std::int64_t option) {
    return MaskedCase::mask(setting, option) == MaskedCase::mask(setting, kOfRanks);
  };
  while (!same(0) || same(1)) ++setting.seed;
  Bench bench;
  const auto report = bench.run(the_case, setting);
  const std::string text = explain_tensors(bench, the_case, setting, *report);
  EXPECT_EQ(text.find("y"), 0U) << text;
  EXPECT_EQ(text.find("option 0"), std::string::npos) << text;
}

}  // namespace
