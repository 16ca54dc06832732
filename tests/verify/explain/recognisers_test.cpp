// Every recogniser says what a tensor is that was made so, and says nothing of one that is almost so.

#include "verify/explain/recognisers.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>

#include "verify/explain/explained_tensors.h"
#include "verify/explain/field_ratio.h"
#include "verify/properties/bench.h"

namespace {

using namespace verify;
using sim::Field;

/// Its output y [2, 3] is table(ids) + x.0 + 2 x.1, doubled where `twice` is 1; z is another tensor.
class SumCase : public CaseOf<SumCase> {
 public:
  std::string name() const override { return "sum"; }
  std::vector<Dimension> dimensions() const override { return {{"width", 1, 9}, {"twice", 0, 1}}; }
  std::vector<CaseOutput> outputs(const CaseSetting&) const override { return {{"y"}, {"z"}}; }
  std::vector<ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  void run(sim::Rank&, const CaseSetting&) const override {}
  template <typename Scalar>
  Wholes<Scalar> reference(const Inputs<Scalar>& inputs, const CaseSetting& s) const {
    using Matrix = reference::Matrix<Scalar>;
    const auto& number = inputs.number();
    const Matrix table = inputs.parameter("table", 4, s["width"]);
    const Matrix x0 = inputs.matrix("x.0", 2, s["width"]), x1 = inputs.matrix("x.1", 2, s["width"]);
    const auto ids = inputs.ids("ids", {1, 3});
    inputs.ids("other ids", {0, 2});
    const Matrix y = reference::matrix_of(number, 2, s["width"], [&](Eigen::Index i, Eigen::Index j) {
      const Scalar sum = table(ids[static_cast<std::size_t>(i)], j) + x0(i, j) + number.of(2, 1) * x1(i, j);
      return number.of(1 + s["twice"], 1) * sum;
    });
    return {{"y", y}, {"z", inputs.matrix("z", 2, s["width"])}};
  }
};

const SumCase kCase;
const CaseSetting kSetting{.group_size = 2, .seed = 5, .dimensions = {{"width", 3}, {"twice", 0}}};

/// A tensor y that two ranks hold, with its run. A test changes what is got.
struct Example {
  Example() {
    tensor.run = &run;
    tensor.output = {"y"};
    set_serial(run.serial.at("y"));
    tensor.ranks = {0, 1};
  }
  Example(const Example&) = delete;
  void set_serial(const FieldWhole& serial) {
    tensor.serial = serial;
    tensor.rows = serial.rows();
    tensor.columns = serial.cols();
    tensor.got.assign(serial.data(), serial.data() + serial.size());
    tensor.owner.assign(tensor.got.size(), -1);
  }
  /// Replaces element i by f(i), for all elements.
  template <typename F>
  void set(const F& f) {
    for (std::size_t i = 0; i < tensor.got.size(); ++i) tensor.got[i] = f(i);
  }
  Field serial(std::size_t i) const { return tensor.serial.data()[i]; }
  /// Cuts the tensor into the columns of two ranks, of which some are wrong.
  void cut(std::set<int> wrong) {
    tensor.output.placement = Placement::columns;
    for (std::size_t i = 0; i < tensor.owner.size(); ++i)
      tensor.owner[i] = static_cast<std::int64_t>(i) % tensor.columns * 2 < tensor.columns ? 0 : 1;
    tensor.wrong_ranks = std::move(wrong);
  }
  /// Returns what this recogniser says; "" for nothing.
  std::string says(const std::string& recogniser) {
    tensor.is_wrong.clear();
    for (std::size_t i = 0; i < tensor.got.size(); ++i)
      tensor.is_wrong.push_back(!(tensor.got[i] == tensor.serial.data()[i]));
    for (const auto& table : {value_recognisers(), experiments(), partial_recognisers()}) {
      for (const Recogniser& one : table) {
        if (recogniser == one.name) return one.explain(tensor, budget);
      }
    }
    ADD_FAILURE() << "no recogniser is called " << recogniser;
    return "";
  }
  Wholes<Field> changed(const InputChange& change) const {
    return kCase.serial(Inputs<Field>(kSetting, run.number, &change), kSetting);
  }
  void set_changed(const InputChange& change) {
    const FieldWhole y = changed(change).at("y");
    set([&](std::size_t i) { return y.data()[i]; });
  }

  Bench bench;
  sim::RunReport report;
  ComparedRun run = compared_run(bench, kCase, kSetting, report);
  WrongTensor tensor;
  ExperimentBudget budget;
};

/// Says it of `e`, and nothing once its last element is another one.
void expect_says(Example& e, const std::string& recogniser, const std::string& text) {
  EXPECT_EQ(e.says(recogniser), text);
  e.tensor.got.back() = e.tensor.got.back() + Field::of(777'777);
  EXPECT_EQ(e.says(recogniser), "");
}

TEST(Recognisers, Zero) {
  Example e;
  e.set([](std::size_t) { return Field::of(0); });
  expect_says(e, "zero", "every element is zero");
}

TEST(Recognisers, AFactorHasTheNamesOfTheSetting) {
  Example by_ranks;
  by_ranks.set([&](std::size_t i) { return Field::of(2) * by_ranks.serial(i); });
  expect_says(by_ranks, "factor", "every element is tp (2) times the serial one");
  Example by_width;
  by_width.set([&](std::size_t i) { return by_width.serial(i) / Field::of(3); });
  expect_says(by_width, "factor", "every element is the serial one divided by width (3)");
  Example quotient;
  quotient.set([&](std::size_t i) { return quotient.serial(i) * Field::of(2) / Field::of(3); });
  expect_says(quotient, "factor", "every element is 2/3 of the serial one, which is tp (2) / width (3)");
  Example root;
  root.set([&](std::size_t i) { return root.serial(i) * root.run.number.sqrt(Field::of(6)); });
  expect_says(root, "factor", "every element is sqrt(6) times the serial one");
}

TEST(Recognisers, AFactorOfEachRank) {
  Example e;
  e.set_serial(e.run.serial.at("y").leftCols(2));
  e.cut({0, 1});
  e.set([&](std::size_t i) { return Field::of(i % 2 == 0 ? 5 : 7) * e.serial(i); });
  expect_says(
      e, "factor of each rank",
      "on rank 0 every element is 5 times the serial one, on rank 1 every element is 7 times the serial "
      "one");
}

TEST(Recognisers, ThePartOfAnotherRank) {
  Example e;
  e.set_serial(e.run.serial.at("y").leftCols(2));
  e.cut({0, 1});
  e.set([&](std::size_t i) { return e.serial(i % 2 == 0 ? i + 1 : i - 1); });
  expect_says(e, "part of another rank", "rank 0 has the part of rank 1, rank 1 has the part of rank 0");
}

TEST(Recognisers, OtherPlaces) {
  Example rows;
  rows.set([&](std::size_t i) { return rows.serial((i + 3) % 6); });
  expect_says(rows, "other places", "its rows are, in this order, rows 1 0 of the serial one");
  Example elements;
  elements.set([&](std::size_t i) { return elements.serial((i + 1) % 6); });
  expect_says(elements, "other places",
              "its elements are those of the serial one in other places: row by row, elements 1 2 3 4 5 0");
}

// A row that is three times another one, and lost its factor, is no row in another place.
TEST(Recognisers, ALostFactorThatMakesLinesEqualIsNoOtherPlace) {
  Example e;
  FieldWhole serial = e.tensor.serial;
  for (Eigen::Index j = 0; j < serial.cols(); ++j) serial(1, j) = Field::of(3) * serial(0, j);
  e.set_serial(serial);
  e.set([&](std::size_t i) { return e.serial(i % 3); });
  EXPECT_EQ(e.says("other places"), "");
  EXPECT_EQ(e.says("factor of some elements"),
            "in row 1, columns 0 to 2, the only wrong part, it is the serial one divided by width (3)");
}

TEST(Recognisers, AnotherTensor) {
  Example e;
  e.set([&](std::size_t i) { return e.run.serial.at("z").data()[i]; });
  expect_says(e, "another tensor", "it is z");
  Example before;
  before.run.others["its value of the step before"]["y"] = before.run.serial.at("z");
  before.set([&](std::size_t i) { return before.run.serial.at("z").data()[i]; });
  expect_says(before, "another tensor", "it is its value of the step before");
}

TEST(Recognisers, OtherRowsOfAnInput) {
  Example e;
  const FieldWhole table = e.run.inputs.matrices.at("table");
  e.set_serial(table.topRows(2));
  e.set([&](std::size_t i) { return i < 3 ? e.serial(i) : table.data()[i + 3]; });
  expect_says(e, "other rows of an input", "row 1 is row 2, and should be row 1 of table");
}

TEST(Recognisers, ADifferenceThatIsATensor) {
  Example e;
  e.set([&](std::size_t i) { return e.serial(i) - e.run.serial.at("z").data()[i] / Field::of(32); });
  expect_says(e, "difference of a tensor", "it is the serial one minus 1/32 of z");
}

TEST(Recognisers, WhatShouldBeZeroIsNot) {
  Example e;
  FieldWhole serial = e.run.serial.at("y");
  serial(0, 1) = Field::of(0);
  e.set_serial(serial);
  e.tensor.got[1] = Field::of(9);
  expect_says(
      e, "not zero where zero",
      "every wrong element should be zero and is not (row 0, column 1): what is masked, padded or ignored "
      "counts");
}

TEST(Recognisers, AFactorOfSomeElements) {
  Example e;
  e.set([&](std::size_t i) { return i < 3 ? Field::of(3) * e.serial(i) : e.serial(i); });
  expect_says(e, "factor of some elements",
              "in row 0, columns 0 to 2, the only wrong part, it is width (3) times the serial one");
}

TEST(Recognisers, OneUnknownFactor) {
  Example e;
  const Field unknown = e.run.number.exp(Field::of(12345));
  e.set([&](std::size_t i) { return unknown * e.serial(i); });
  expect_says(e, "one unknown factor",
              "every element is the same multiple of the serial one, by a number that the run computes");
}

TEST(Recognisers, AFactorByRow) {
  Example e;
  e.set([&](std::size_t i) { return Field::of(i < 3 ? 54'321 : 98'765) * e.serial(i); });
  expect_says(
      e, "factor by line",
      "each row is a multiple of the serial row, by a number of its own: what the rows are multiplied by is "
      "wrong, and what is in them is right");
}

TEST(Recognisers, AnotherOption) {
  Example e;
  e.set([&](std::size_t i) { return Field::of(2) * e.serial(i); });
  expect_says(e, "another option", "it is what twice 1 gives, and twice is 0 here");
}

TEST(Recognisers, AnInputCountsOtherwise) {
  Example missing;
  missing.set_changed({.names = {"table"}, .factor = 0});
  expect_says(missing, "an input counts otherwise", "table had no part in it: that term is missing");
  Example part;
  part.set_changed({.names = {"x.1"}, .axis = InputChange::Axis::rows, .part = 1, .parts = 2, .factor = -1});
  expect_says(part, "an input counts otherwise", "row 1 of x.1, rank 1's part, counted with the other sign");
}

TEST(Recognisers, PartsOfOtherRanks) {
  Example e;
  e.set_changed({.names = {"x.0"}, .axis = InputChange::Axis::rows, .parts = 2, .shift = 1});
  expect_says(e, "parts of other ranks", "of x.0, each rank used the rows of the rank one place after it");
}

TEST(Recognisers, HalvesOfAnInput) {
  Example exchanged;
  exchanged.set_changed({.names = {"table"}, .parts = 2, .shift = 1});
  expect_says(exchanged, "halves of an input", "the two halves of the rows of table are exchanged");
  Example missing;
  missing.set_changed({.names = {"table"}, .part = 1, .parts = 2, .factor = 0});
  expect_says(missing, "halves of an input",
              "the second half of the rows of table had no part in it: that term is missing");
}

TEST(Recognisers, AnotherMask) {
  Example e;
  FieldWhole serial = e.run.serial.at("y");
  serial(0, 0) = Field::of(0);
  e.set_serial(serial);
  e.tensor.got[0] = Field::of(8);
  e.tensor.got[1] = Field::of(0);
  expect_says(
      e, "another mask",
      "other elements of it are zero than of the serial one (1 that should not be, 1 that should), and the "
      "rest is equal: another mask");
}

TEST(Recognisers, GroupsOfInputs) {
  Example missing;
  missing.set_changed({.names = {"x.0"}, .factor = 0});
  expect_says(missing, "a group counts otherwise", "x.0 had no part in it: that term is missing");
  Example exchanged;
  exchanged.set_changed({.drawn_as = {{"x.0", "x.1"}, {"x.1", "x.0"}}});
  expect_says(exchanged, "groups exchanged", "x.0 is exchanged with x.1");
}

TEST(Recognisers, OtherIds) {
  Example e;
  e.set_changed({.ids = {{"ids", {0, 2}}}});
  expect_says(e, "other ids", "ids are those of other ids");
  Example one;
  one.set_changed({.ids = {{"ids", {1, 2}}}});
  expect_says(one, "one other id", "it is as if id 1 of ids were 2, and it is 3");
}

TEST(Recognisers, ARatioIsFoundOnlyIfItIsOne) {
  const Example e;
  for (const std::int64_t above : {1, 2, 7, 999}) {
    for (const std::int64_t below : {1, 3, 998}) {
      const auto ratio =
          small_ratio(e.run.number, Field::of(above) * e.serial(0), Field::of(below) * e.serial(0));
      ASSERT_TRUE(ratio.has_value()) << above << "/" << below;
      EXPECT_EQ(ratio->numerator * below, ratio->denominator * above);
    }
  }
  for (std::size_t i = 1; i < e.tensor.got.size(); ++i)
    EXPECT_FALSE(small_ratio(e.run.number, e.serial(i), e.serial(0)).has_value());
}

}  // namespace
