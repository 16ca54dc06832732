// Proves that a case whose declaration breaks a rule is refused before any rank runs, by case and member, in
// the program of a project with cases of its own; and that the cases of this project keep the rules.

#include "verify/cases/case_rules.h"

#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <sstream>

#include "tests/support/run.h"
#include "verify/cases/case_inputs.h"
#include "verify/prove.h"

namespace {

using namespace verify;

/// A right case, each member of whose declaration can be replaced.
class DeclaredCase : public CaseOf<DeclaredCase> {
 public:
  using Outputs = std::vector<CaseOutput>;
  std::string named = "declared";
  std::vector<Dimension> drawn_from = {{"tokens", 1, 3}, {"flag", 0, 1}};
  Outputs published = {{"output"}, {"grad_output"}};
  std::function<Outputs(const CaseSetting&)> outputs_of;  // in place of `published`
  std::vector<AdjointIdentity> identities = {};
  std::function<CaseSetting(CaseSetting)> twin;  // none: there are no twins
  std::int64_t more_ranks = 0;
  mutable bool ran = false;

  std::string name() const override { return named; }
  std::vector<Dimension> dimensions() const override { return drawn_from; }
  sim::ParallelSizes sizes(const CaseSetting& s) const override {
    sim::ParallelSizes sizes = Case::sizes(s);
    sizes.world_size += more_ranks;
    return sizes;
  }
  Outputs outputs(const CaseSetting& s) const override { return outputs_of ? outputs_of(s) : published; }
  std::vector<ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  std::vector<AdjointIdentity> adjoint(const CaseSetting&) const override { return identities; }
  std::vector<CaseSetting> twins(const CaseSetting& s) const override {
    return twin ? std::vector<CaseSetting>{s, twin(s)} : std::vector<CaseSetting>{};
  }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    ran = true;
    for (const char* tensor : {"output", "grad_output"})
      rank.publish(tensor, drawn(rank, s, tensor, {s["tokens"], 2}));
  }
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    return {{"output", inputs.matrix("output", s["tokens"], 2)},
            {"grad_output", inputs.matrix("grad_output", s["tokens"], 2)}};
  }
};

const std::string kRefused = std::string("./mine: refused [") + "case_declaration" + "]\n  where  ";

test::RunResult prove(const CaseList& cases, const std::vector<std::string>& words) {
  std::ostringstream out, err;
  const int code = verify::prove("./mine", words, cases, {out, err});
  return {code, out.str(), err.str()};
}

/// Runs check over a case that `change` makes wrong. Expects it to be refused before it runs, by the case,
/// the member and what is wrong with it.
void expect_refused(const std::function<void(DeclaredCase&)>& change, const std::string& where,
                    const std::string& given) {
  auto wrong = std::make_unique<DeclaredCase>();
  change(*wrong);
  const DeclaredCase& the_case = *wrong;
  CaseList cases;
  cases.push_back(std::move(wrong));
  const test::RunResult result = prove(cases, {"--runs", "3"});
  EXPECT_EQ(result.exit_code, 2) << where;
  EXPECT_EQ(result.err.find(kRefused + where + "\n  given  " + given), 0U) << result.err;
  EXPECT_FALSE(the_case.ran);
}

TEST(CaseRules, ARightCaseHolds) {
  CaseList cases;
  cases.push_back(std::make_unique<DeclaredCase>());
  EXPECT_EQ(prove(cases, {"--runs", "3"}).exit_code, 0);
}

TEST(CaseRules, NamesAndDimensions) {
  const auto dimensions = [](std::vector<Dimension> all) {
    return [all](DeclaredCase& c) { c.drawn_from = all; };
  };
  expect_refused([](DeclaredCase& c) { c.named = ""; }, "case 1 of 1: name()", "the name is ''");
  expect_refused([](DeclaredCase& c) { c.named = "../mine"; }, "case 1 of 1: name()",
                 "the name is '../mine'");
  expect_refused([](DeclaredCase& c) { c.named = "a,b"; }, "case 1 of 1: name()", "the name is 'a,b'");
  const std::string where = "case declared: dimensions()";
  expect_refused(dimensions({{"a b", 1, 2}}), where, "a dimension is named 'a b'");
  expect_refused(dimensions({{"a", 1, 2}, {"a", 1, 3}}), where, "two dimensions are named 'a'");
  expect_refused(dimensions({{"tokens", 3, 1}}), where, "dimension 'tokens' ranges from 3 to 1");
  expect_refused(dimensions({{"tokens", -2, 1}}), where, "dimension 'tokens' ranges from -2 to 1");
  expect_refused(dimensions({{"tokens", 1, 1'000'000}}), where,
                 "dimension 'tokens' ranges from 1 to 1000000");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  expect_refused(dimensions({{.name = "tokens", .least = kMost, .most = kMost, .is_a_rank = true}}), where,
                 "dimension 'tokens' ranges from 9223372036854775807 to");
}

TEST(CaseRules, PlacementsAndTwinsAreSome) {
  expect_refused([](DeclaredCase& c) { c.published[1].placement = static_cast<Placement>(42); },
                 "case declared: outputs()", "output 'grad_output' has Placement(42)");
  expect_refused([](DeclaredCase& c) { c.twin = [](CaseSetting s) { return s; }; }, "case declared: twins()",
                 "at every corner of its settings, the only twin is the setting itself");
  CaseList cases;
  auto right = std::make_unique<DeclaredCase>();
  right->twin = [](CaseSetting s) {
    s.dimensions["flag"] = 1 - s["flag"];
    return s;
  };
  cases.push_back(std::move(right));
  EXPECT_EQ(prove(cases, {"--runs", "3"}).exit_code, 0);
}

TEST(CaseRules, TheListOfCases) {
  const auto refused = [](const CaseList& cases, const std::string& where) {
    for (const char* word : {"check", "replay", "--help"}) {
      const test::RunResult result = prove(cases, {word});
      EXPECT_EQ(result.exit_code, 2);
      EXPECT_EQ(result.err.find(kRefused + where), 0U) << result.err;
    }
  };
  CaseList cases;
  refused(cases, "cases\n");
  cases.push_back(std::make_unique<DeclaredCase>());
  cases.push_back(nullptr);
  refused(cases, "case 2 of 2\n");
  cases.back() = std::make_unique<DeclaredCase>();
  refused(cases, "case declared: name()\n");
}

TEST(CaseRules, WorldsAndOutputs) {
  const std::string outputs = "case declared: outputs()";
  const auto published = [](std::vector<CaseOutput> all) {
    return [all](DeclaredCase& c) { c.published = all; };
  };
  const auto parts = [](std::vector<int> part_of) {
    return [part_of](DeclaredCase& c) {
      c.outputs_of = [part_of](const CaseSetting& s) {
        CaseOutput output{.name = "output", .placement = Placement::rows, .part_of = part_of};
        output.part_of.resize(static_cast<std::size_t>(s.group_size * s.replicas), part_of.back());
        return std::vector<CaseOutput>{std::move(output)};
      };
    };
  };
  expect_refused(
      [](DeclaredCase& c) { c.more_ranks = 1; }, "case declared: sizes()",
      "the world has 3 ranks, but the setting has 2 (at tp 1, field, seed 0, replicas 2, flag 0, tokens 1)");
  expect_refused([](DeclaredCase& c) { c.more_ranks = -2; }, "case declared: sizes()",
                 "the world has 0 ranks");
  expect_refused(published({}), outputs, "the list is empty");
  expect_refused(published({{""}}), outputs, "an output has no name");
  expect_refused(published({{"output"}, {"output"}}), outputs, "two outputs are named 'output'");
  expect_refused(published({{"output", Placement::rows, 0}}), outputs, "output 'output' has stride 0");
  expect_refused(published({{"output", Placement::rows, -1}}), outputs, "output 'output' has stride -1");
  expect_refused(published({{.name = "output", .part_of = {0}}}), outputs,
                 "part_of of 'output' has 1 entries, but the world has 2 ranks");
  expect_refused(parts({-1}), outputs, "no rank has a part of 'output'");
  expect_refused(parts({1}), outputs, "no rank has part 0 of 'output'");
  expect_refused(parts({0, 2}), outputs, "no rank has part 1 of 'output'");
  expect_refused(parts({-2}), outputs, "a rank of 'output' has part -2");
  expect_refused(parts({std::numeric_limits<int>::max()}), outputs, "no rank has part 0 of 'output'");
  expect_refused(published({{.name = "output", .placement = Placement::partial, .part_of = {0, 1}}}), outputs,
                 "'output' is partial and has 2 parts");
}

/// A rule may be broken only where a dimension has another value, and by a member that throws.
TEST(CaseRules, AtACornerOfTheSettings) {
  const std::string outputs = "case declared: outputs()";
  expect_refused(
      [](DeclaredCase& c) {
        c.outputs_of = [](const CaseSetting& s) {
          return std::vector<CaseOutput>{
              {"output", Placement::rows, s["flag"] == 1 && s["tokens"] == 1 ? 0 : 1}, {"grad_output"}};
        };
      },
      outputs, "output 'output' has stride 0 (at tp 1, field, seed 0, replicas 2, flag 1, tokens 1)");
  expect_refused(
      [](DeclaredCase& c) {
        c.outputs_of = [](const CaseSetting& s) {
          return std::vector<CaseOutput>{{.name = "output", .stride = static_cast<int>(s["stride"])}};
        };
      },
      outputs, "it threw an exception: ");
}

TEST(CaseRules, AdjointIdentities) {
  const std::string where = "case declared: adjoint()";
  const auto identities = [](std::vector<AdjointIdentity> all) {
    return [all](DeclaredCase& c) { c.identities = all; };
  };
  expect_refused(identities({{}}), where, "an identity has no terms");
  expect_refused(identities({{{"output", "grad_output"}, {"inptu", "grad_output"}}}), where,
                 "an identity uses 'inptu', which outputs() does not list");
  expect_refused(identities({{{"", "grad_output"}}}), where,
                 "an identity uses '', which outputs() does not list");
  expect_refused(
      [](DeclaredCase& c) {
        c.published = {{"output"}};
        c.identities = {{{"output", "output"}}};
      },
      where, "an identity uses 'grad_output', which outputs() does not list");
}

TEST(CaseRules, TheCasesOfThisProjectKeepThem) {
  EXPECT_NO_THROW(require_cases(all_cases()));
  std::vector<const Case*> cases;
  for (const auto& one : all_cases()) cases.push_back(one.get());
  EXPECT_NO_THROW(require_declarations(cases, 64));
}

}  // namespace
