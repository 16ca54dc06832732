// Proves that an author's layer can be written with public operations alone where it needs a function of its
// own, or the largest element of a row that is sharded: a squared-ReLU MLP and a sharded argmax are proven
// through prove(), and mistakes planted in them are found.

#include <cmath>
#include <gtest/gtest.h>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/parallel/mappings.h"
#include "sim/parallel/parameter.h"
#include "sim/tensor/comparison.h"
#include "sim/tensor/element_function.h"
#include "sim/tensor/matmul.h"
#include "sim/tensor/ops.h"
#include "sim/tensor/rows.h"
#include "tests/support/dual.h"
#include "tests/support/run.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/prove.h"
#include "verify/reference/linear.h"
#include "verify/reference/row_choice.h"

namespace {

using sim::Comparison;
using verify::CaseSetting;
using verify::Placement;

enum class Planted {
  nothing,
  wrong_derivative,
  wrong_value,
  read_before_wait,
  offset_forgotten,
  ties_to_the_highest
};

// ---- An MLP with a function of its own ----

sim::ElementFunction squared_relu(Planted planted) {
  const auto value = [](auto x) { return x < 0 ? decltype(x)(0) : x * x; };
  const auto derivative = [](auto x) { return x < 0 ? decltype(x)(0) : 2 * x; };
  if (planted == Planted::wrong_derivative) {
    return sim::element_function("squared_relu", value, [](auto x) { return x < 0 ? decltype(x)(0) : x; });
  }
  if (planted == Planted::wrong_value)
    return sim::element_function(
        "squared_relu", [](auto x) { return x * x; }, derivative);
  return sim::element_function("squared_relu", value, derivative);
}

/// Y = f(X A^T) B^T with f(x) = max(x, 0)^2. The rows of A and the columns of B are split over the group.
class SquaredReluMlp {
 public:
  SquaredReluMlp(sim::Rank& rank, const CaseSetting& s, Planted planted)
      : tp_(rank.groups.get("tp")),
        function_(squared_relu(planted)),
        reads_before_wait_(planted == Planted::read_before_wait) {
    const auto part = [&](int dim) {
      return sim::Partition{.dim = dim, .place = tp_.rank(), .size = tp_.size()};
    };
    fc1 = sim::make_parameter(rank, "squared.fc1", s.dtype, {s.whole("ffn"), s["hidden"]}, part(0), {});
    fc2 = sim::make_parameter(rank, "squared.fc2", s.dtype, {s["hidden"], s.whole("ffn")}, part(1), {});
  }

  sim::Tensor forward(const sim::Tensor& input) {
    inside_ = sim::matmul(input, sim::transposed(fc1.value));
    activated_ = sim::apply(function_, inside_);
    const sim::Tensor own = sim::matmul(activated_, sim::transposed(fc2.value));
    if (reads_before_wait_) {
      sim::Work sum = tp_.start_all_reduce(own, sim::ReduceOp::sum, "squared.forward");
      const sim::Tensor output = sim::scale(own, {1, 1});
      sum.wait();
      return output;
    }
    return sim::kReduceFromTensorModelParallelRegion.forward(own, tp_, "squared.forward");
  }
  sim::Tensor backward(const sim::Tensor& input, const sim::Tensor& grad) {
    sim::add_matmul(sim::transposed(grad), activated_, fc2.main_grad);
    const sim::Tensor grad_inside = sim::apply_backward(function_, inside_, sim::matmul(grad, fc2.value));
    sim::add_matmul(sim::transposed(grad_inside), input, fc1.main_grad);
    return sim::kCopyToTensorModelParallelRegion.backward(sim::matmul(grad_inside, fc1.value), tp_,
                                                          "squared.backward");
  }

  sim::Parameter fc1, fc2;

 private:
  sim::Communicator& tp_;
  sim::ElementFunction function_;
  bool reads_before_wait_;
  sim::Tensor inside_, activated_;
};

/// The reference's own words.
const auto kSquaredRelu = [](const auto& number, const auto& x) {
  const auto positive = number.larger(x, number.of(0, 1));
  return positive * positive;
};
const auto kSlope = [](const auto& number, const auto& x) {
  return number.of(2, 1) * number.larger(x, number.of(0, 1));
};
const auto kHalfTheSlope = [](const auto& number, const auto& x) {
  return number.larger(x, number.of(0, 1));
};

class SquaredReluCase : public verify::CaseOf<SquaredReluCase> {
 public:
  explicit SquaredReluCase(Planted planted) : planted_(planted) {}
  std::string name() const override { return "squared_relu_mlp"; }
  std::vector<verify::Dimension> dimensions() const override {
    return {{"tokens", 1, 4}, {"hidden", 1, 7}, {.name = "ffn", .least = 1, .most = 4, .is_a_rank = true}};
  }
  std::vector<verify::CaseOutput> outputs(const CaseSetting&) const override {
    return {{"output"}, {"grad_input"}, {"fc1_grad", Placement::rows}, {"fc2_grad", Placement::columns}};
  }
  std::vector<verify::ExpectedCall> calls(const CaseSetting& s) const override {
    const std::int64_t count = s["tokens"] * s["hidden"];
    return {{"squared.forward", sim::Operation::all_reduce, count},
            {"squared.backward", sim::Operation::all_reduce, count}};
  }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    SquaredReluMlp layer(rank, s, planted_);
    const sim::Tensor input = verify::drawn(rank, s, "input", {s["tokens"], s["hidden"]});
    rank.publish("output", layer.forward(input));
    const sim::Tensor grad = verify::drawn(rank, s, "grad_output", {s["tokens"], s["hidden"]});
    rank.publish("grad_input", layer.backward(input, grad));
    rank.publish("fc1_grad", layer.fc1.main_grad);
    rank.publish("fc2_grad", layer.fc2.main_grad);
  }
  template <typename Scalar>
  verify::Wholes<Scalar> reference(const verify::Inputs<Scalar>& inputs, const CaseSetting& s) const {
    namespace reference = verify::reference;
    const auto& number = inputs.number();
    const auto fc1 = inputs.parameter("squared.fc1", s.whole("ffn"), s["hidden"]);
    const auto fc2 = inputs.parameter("squared.fc2", s["hidden"], s.whole("ffn"));
    const auto x = inputs.matrix("input", s["tokens"], s["hidden"]);
    const auto inside = reference::linear<Scalar>(number, x, fc1, {});
    const auto activated =
        reference::matrix_of(number, inside.rows(), inside.cols(), [&](Eigen::Index t, Eigen::Index f) {
          return number.function("squared_relu", inside(t, f), kSquaredRelu);
        });
    const auto grad = inputs.matrix("grad_output", s["tokens"], s["hidden"]);
    const auto of_fc2 = reference::linear_gradients<Scalar>(number, activated, fc2, grad);
    const auto grad_inside =
        reference::matrix_of(number, inside.rows(), inside.cols(), [&](Eigen::Index t, Eigen::Index f) {
          return of_fc2.x(t, f) * number.function("squared_relu_derivative", inside(t, f), kSlope);
        });
    const auto of_fc1 = reference::linear_gradients<Scalar>(number, x, fc1, grad_inside);
    return {{"output", reference::linear<Scalar>(number, activated, fc2, {})},
            {"grad_input", of_fc1.x},
            {"fc1_grad", of_fc1.weight},
            {"fc2_grad", of_fc2.weight}};
  }

 private:
  Planted planted_;
};

// ---- The largest score of a token, and its column, where the columns are sharded ----

struct Choice {
  sim::Tensor score;   // [T], f32 for scores in bf16
  sim::Tensor column;  // [T] i32, of the whole row; -1 where it has no number
};

/// Each rank has the largest of its own columns. Those that are the largest of all offer their column, and
/// the lowest offer is taken.
Choice sharded_argmax(sim::Communicator& tp, const sim::Tensor& scores, Planted planted) {
  const std::int64_t own = scores.shape()[1];
  const auto all = [&](std::int64_t value) {
    return sim::filled(scores.device(), sim::DType::i32, {scores.shape()[0]}, static_cast<double>(value));
  };
  const sim::Tensor own_largest = sim::row_max(scores);
  const sim::Tensor own_column = sim::argmax(scores);
  const sim::Tensor largest = sim::cast(own_largest, own_largest.dtype());
  if (tp.size() > 1) tp.all_reduce(largest, sim::ReduceOp::max, "argmax.score");

  const sim::Tensor has_it =
      sim::combine(sim::ReduceOp::product, sim::compare(Comparison::equal, own_largest, largest),
                   sim::compare(Comparison::greater, own_column, all(-1)));
  const std::int64_t first = planted == Planted::offset_forgotten ? 0 : tp.rank() * own;
  const bool takes_highest = planted == Planted::ties_to_the_highest;
  const std::int64_t nobody = takes_highest ? -1 : own * tp.size();
  const sim::Tensor offer = sim::select(has_it, sim::add(own_column, all(first)), all(nobody));
  if (tp.size() > 1)
    tp.all_reduce(offer, takes_highest ? sim::ReduceOp::max : sim::ReduceOp::min, "argmax.column");
  return {largest, sim::select(sim::compare(Comparison::equal, offer, all(nobody)), all(-1), offer)};
}

/// In some settings all scores of a row are equal.
class ShardedArgmaxCase : public verify::CaseOf<ShardedArgmaxCase> {
 public:
  explicit ShardedArgmaxCase(Planted planted) : planted_(planted) {}
  std::string name() const override { return "sharded_argmax"; }
  std::vector<verify::Dimension> dimensions() const override {
    return {{"tokens", 1, 6}, {.name = "experts", .least = 1, .most = 5, .is_a_rank = true}, {"ties", 0, 1}};
  }
  std::vector<verify::CaseOutput> outputs(const CaseSetting&) const override {
    return {{"score"}, {"column"}};
  }
  std::vector<verify::ExpectedCall> calls(const CaseSetting& s) const override {
    constexpr bool kOfSums = true;  // the largest score of bf16 is f32
    return {{.site = "argmax.score",
             .operation = sim::Operation::all_reduce,
             .elements = s["tokens"],
             .of_sums = kOfSums,
             .reduce_op = sim::ReduceOp::max},
            {.site = "argmax.column",
             .operation = sim::Operation::all_reduce,
             .elements = s["tokens"],
             .dtype = sim::DType::i32,
             .reduce_op = sim::ReduceOp::min}};
  }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const Choice choice = sharded_argmax(rank.groups.get("tp"), scores_of(rank, s), planted_);
    rank.publish("score", choice.score);
    rank.publish("column", sim::cast(choice.column, s.dtype));
  }
  template <typename Scalar>
  verify::Wholes<Scalar> reference(const verify::Inputs<Scalar>& inputs, const CaseSetting& s) const {
    namespace reference = verify::reference;
    const auto& number = inputs.number();
    auto scores = inputs.matrix("scores", s["tokens"], s.whole("experts"));
    if (s["ties"] == 1) {
      for (Eigen::Index t = 0; t < scores.rows(); ++t) scores.row(t).setConstant(scores(t, 0));
    }
    reference::Matrix<Scalar> score(1, scores.rows()), column(1, scores.rows());
    for (Eigen::Index t = 0; t < scores.rows(); ++t) {
      score(0, t) = reference::row_max<Scalar>(number, scores, t);
      column(0, t) = reference::argmax<Scalar>(number, scores, t);
    }
    return {{"score", score}, {"column", column}};
  }

 private:
  /// Returns this rank's columns. With ties, every column of a row is its first one.
  static sim::Tensor scores_of(sim::Rank& rank, const CaseSetting& s) {
    if (s["ties"] == 0) return verify::drawn_own_columns(rank, s, "scores", s["tokens"], s.whole("experts"));
    const sim::Tensor whole = verify::drawn(rank, s, "scores", {s["tokens"], s.whole("experts")});
    sim::Tensor own = sim::filled(rank.device, s.dtype, {s["tokens"], s["experts"]}, 0);
    for (std::int64_t column = 0; column < s["experts"]; ++column)
      sim::put_columns(sim::columns(whole, 0, 1), own, column);
    return own;
  }

  Planted planted_;
};

// ---- What prove() says of them ----

test::RunResult prove(std::unique_ptr<verify::Case> the_case, std::vector<std::string> words) {
  verify::CaseList cases;
  cases.push_back(std::move(the_case));
  std::ostringstream out, err;
  const int code = verify::prove("./mine", words, cases, {out, err});
  return {code, out.str(), err.str()};
}

TEST(AuthorLayers, AFunctionOfItsOwnIsProvenInEveryDtype) {
  for (const char* dtype : {"field", "f64", "f32", "bf16"}) {
    const test::RunResult result = prove(std::make_unique<SquaredReluCase>(Planted::nothing),
                                         {"check", "--dtype", dtype, "--runs", "60"});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
}

TEST(AuthorLayers, AWrongDerivativeIsFoundAndItsTensorNamed) {
  for (const char* dtype : {"f64", "f32", "bf16"}) {
    const test::RunResult result = prove(std::make_unique<SquaredReluCase>(Planted::wrong_derivative),
                                         {"check", "--dtype", dtype, "--property", "serial"});
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    EXPECT_NE(result.out.find("squared_relu_mlp serial: "), std::string::npos) << result.out;
    const bool names_a_gradient = result.out.find("grad_input(") != std::string::npos ||
                                  result.out.find("fc1_grad(") != std::string::npos;
    EXPECT_TRUE(names_a_gradient) << result.out;
  }
  const test::RunResult value = prove(std::make_unique<SquaredReluCase>(Planted::wrong_value),
                                      {"check", "--dtype", "f32", "--property", "serial"});
  EXPECT_EQ(value.exit_code, 1) << value.out;
  // In the field the function is an arbitrary one.
  const test::RunResult field = prove(std::make_unique<SquaredReluCase>(Planted::wrong_derivative),
                                      {"check", "--dtype", "field", "--property", "serial"});
  EXPECT_EQ(field.exit_code, 0) << field.out;
}

/// The layer calls on one rank, too, where none is expected: that is not why the run ended.
TEST(AuthorLayers, ABufferReadTooEarlyIsNotExplainedByOtherCalls) {
  const test::RunResult result = prove(std::make_unique<SquaredReluCase>(Planted::read_before_wait),
                                       {"check", "--dtype", "f64", "--property", "serial"});
  EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
  EXPECT_NE(result.out.find("are being written by 'squared.forward' (tests/"), std::string::npos)
      << result.out;
  EXPECT_EQ(result.out.find("one too many"), std::string::npos) << result.out;
}

/// The reference differentiates itself (tests/support/dual.h).
template <typename Slope>
bool is_the_derivative(const Slope& slope) {
  using verify::reference::Bounded;
  using verify::reference::Number;
  const verify::reference::Rounding rounding = verify::reference::rounding_of_f64(1);
  const Number<test::Dual> dual(rounding);
  const Number<Bounded> bounded(rounding);
  bool is_equal = true;
  for (const double at : {-3.0, -0.25, 0.5, 1.75}) {
    const test::Dual x = {Bounded(at, &rounding), Bounded(1, &rounding)};
    const Bounded derived = dual.function("squared_relu", x, kSquaredRelu).slope;
    const Bounded stated = bounded.function("squared_relu_derivative", x.value, slope);
    is_equal &= std::fabs(derived.value() - stated.value()) <= derived.error() + stated.error();
  }
  return is_equal;
}

TEST(AuthorLayers, TheReferencesDerivativeIsThatOfItsValue) {
  EXPECT_TRUE(is_the_derivative(kSlope));
  EXPECT_FALSE(is_the_derivative(kHalfTheSlope));
}

TEST(AuthorLayers, TheLargestOfAShardedRowIsProvenInEveryDtype) {
  for (const char* dtype : {"field", "f64", "f32", "bf16"}) {
    const test::RunResult result = prove(std::make_unique<ShardedArgmaxCase>(Planted::nothing),
                                         {"check", "--dtype", dtype, "--runs", "60"});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
}

TEST(AuthorLayers, AWrongColumnIsFound) {
  for (const Planted planted : {Planted::offset_forgotten, Planted::ties_to_the_highest}) {
    for (const char* dtype : {"field", "bf16"}) {
      const test::RunResult result = prove(std::make_unique<ShardedArgmaxCase>(planted),
                                           {"check", "--dtype", dtype, "--property", "serial"});
      EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
      EXPECT_NE(result.out.find("sharded_argmax serial: column(0, "), std::string::npos) << result.out;
      EXPECT_NE(result.out.find("tp 2, "), std::string::npos) << result.out;
    }
  }
}

}  // namespace
