// Proves references against PyTorch: forward and gradients of every piece, at the inputs of
// tests/torch/values.jsonl, which make_values.py beside it wrote. PyTorch's float64 must lie within the
// bound that the reference derives. The bound is for the steps that the reference takes. PyTorch takes
// some other steps (log-softmax, gradients of norms), which the bound does not promise to cover, but it
// does: over 40 other seeds of the inputs, no difference was above a third of its bound.

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "verify/reference/attention.h"
#include "verify/reference/cross_entropy.h"
#include "verify/reference/embedding.h"
#include "verify/reference/linear.h"
#include "verify/reference/mlp.h"
#include "verify/reference/norm.h"
#include "verify/reference/self_attention.h"

namespace {

using namespace verify::reference;
using nlohmann::json;

using Values = Matrix<Bounded>;
using Results = std::map<std::string, Values>;

const Rounding& rounding() {
  static const Rounding of_double = rounding_of_f64(1);
  return of_double;
}
const Number<Bounded>& number() {
  static const Number<Bounded> bounded(rounding());
  return bounded;
}

/// A matrix of the file: its rows, its columns, and its elements row by row.
Values matrix(const json& numbers) {
  Values result(numbers.at(0).get<Eigen::Index>(), numbers.at(1).get<Eigen::Index>());
  for (Eigen::Index i = 0; i < result.size(); ++i) {
    result.data()[i] = Bounded(numbers.at(static_cast<std::size_t>(i) + 2).get<double>(), &rounding());
  }
  return result;
}

/// One line of the file: one setting of one piece.
class Line {
 public:
  explicit Line(json line) : line_(std::move(line)) {}
  std::string piece() const { return line_.at("piece"); }
  std::string name() const { return piece() + " " + line_.at("setting").dump(); }
  const json& values() const { return line_.at("values"); }
  const json& inputs() const { return line_.at("inputs"); }

  std::int64_t setting(const char* name) const { return line_.at("setting").at(name); }
  Ids ids() const { return line_.at("ids"); }
  Values input(const char* name) const { return matrix(inputs().at(name)); }
  Values input_if_any(const char* name) const { return inputs().contains(name) ? input(name) : Values(); }
  Values grad() const { return matrix(line_.at("given").at("grad")); }
  Values table_if_any(const char* name) const {
    return line_.at("given").contains(name) ? matrix(line_.at("given").at(name)) : Values();
  }
  Activation function() const {
    static const std::map<std::string, Activation> functions = {
        {"gelu_tanh", Activation::gelu_tanh}, {"gelu_erf", Activation::gelu_erf}, {"silu", Activation::silu}};
    return functions.at(line_.at("setting").at("function"));
  }

 private:
  json line_;
};

std::vector<Line> all_lines() {
  std::ifstream file(SHARDPROOF_TORCH_VALUES);
  std::string text;
  EXPECT_TRUE(std::getline(file, text)) << SHARDPROOF_TORCH_VALUES;
  EXPECT_TRUE(json::parse(text).contains("torch")) << "the first line says which PyTorch it was";
  std::vector<Line> lines;
  while (std::getline(file, text)) lines.emplace_back(json::parse(text));
  return lines;
}

Results of_linear(const Line& line) {
  const Values x = line.input("x"), weight = line.input("weight");
  const auto gradients = linear_gradients(number(), x, weight, line.grad());
  return {{"output", linear(number(), x, weight, line.input_if_any("bias"))},
          {"grad_x", gradients.x},
          {"grad_weight", gradients.weight},
          {"grad_bias", gradients.bias}};
}

Results of_embedding(const Line& line) {
  const Values table = line.input("table");
  return {{"output", embedding(table, line.ids())},
          {"grad_table", embedding_gradient(number(), table, line.ids(), line.grad())}};
}

Results of_norm(const Line& line) {
  const NormSetting setting{.is_layer_norm = line.setting("layer_norm") == 1,
                            .epsilon_numerator = line.setting("epsilon_numerator"),
                            .epsilon_denominator = line.setting("epsilon_denominator")};
  const Values x = line.input("x"), weight = line.input("weight");
  const auto gradients = norm_gradients(number(), x, weight, line.grad(), setting);
  return {{"output", norm(number(), x, weight, line.input_if_any("bias"), setting)},
          {"grad_x", gradients.x},
          {"grad_weight", gradients.weight},
          {"grad_bias", gradients.bias}};
}

Results of_cross_entropy(const Line& line) {
  const CrossEntropySetting setting{.vocabulary = line.setting("vocabulary"),
                                    .ignored_id = line.setting("ignored_id"),
                                    .smoothing_numerator = line.setting("smoothing_numerator"),
                                    .smoothing_denominator = line.setting("smoothing_denominator")};
  const Values logits = line.input("logits");
  const CrossEntropy reference(number(), logits, line.ids(), setting);
  return {{"output", reference.loss()}, {"grad_logits", reference.gradient(line.grad())}};
}

Results of_attention(const Line& line) {
  const Values q = line.input("q"), k = line.input("k"), v = line.input("v");
  const auto forward = attention(number(), q, k, v, {line.setting("causal") == 1});
  const auto gradients = attention_gradients(number(), q, k, v, forward, line.grad());
  return {
      {"output", forward.output}, {"grad_q", gradients.q}, {"grad_k", gradients.k}, {"grad_v", gradients.v}};
}

Results of_rotation(const Line& line) {
  const Values cosines = line.table_if_any("cosines"), sines = line.table_if_any("sines");
  return {{"output", rotated(number(), line.input("x"), cosines, sines, false)},
          {"grad_x", rotated(number(), line.grad(), cosines, sines, true)}};
}

Results of_self_attention(const Line& line) {
  const SelfAttentionSizes sizes{.sequence = line.setting("sequence"),
                                 .batch = line.setting("batch"),
                                 .heads = line.setting("heads"),
                                 .groups = line.setting("groups"),
                                 .channels = line.setting("channels"),
                                 .sight = {line.setting("causal") == 1}};
  const SelfAttention<Bounded> layer(
      number(), sizes,
      {line.input("qkv_weight"), line.input_if_any("qkv_bias"), line.input("proj_weight"),
       line.input_if_any("proj_bias"), line.table_if_any("cosines"), line.table_if_any("sines")},
      line.input("x"));
  const auto gradients = layer.gradients(line.grad());
  return {{"output", layer.output()},
          {"grad_x", gradients.x},
          {"grad_qkv_weight", gradients.qkv.weight},
          {"grad_qkv_bias", gradients.qkv.bias},
          {"grad_proj_weight", gradients.proj.weight},
          {"grad_proj_bias", gradients.proj.bias}};
}

Results of_activation(const Line& line) {
  const Values x = line.input("x"), grad = line.grad();
  const auto each = [&](bool derivative) {
    return matrix_of(number(), x.rows(), x.cols(), [&](Eigen::Index i, Eigen::Index j) {
      return number().activation(line.function(), derivative, x(i, j));
    });
  };
  const Values slopes = each(true);
  return {{"output", each(false)},
          {"grad_x", matrix_of(number(), x.rows(), x.cols(),
                               [&](Eigen::Index i, Eigen::Index j) { return grad(i, j) * slopes(i, j); })}};
}

Results of_mlp(const Line& line) {
  const Mlp<Bounded> layer(number(), line.function(), line.setting("gated") == 1,
                           {line.input("fc1_weight"), line.input_if_any("fc1_bias"), line.input("fc2_weight"),
                            line.input_if_any("fc2_bias")},
                           line.input("x"));
  const auto gradients = layer.gradients(line.grad());
  return {{"output", layer.output()},
          {"grad_x", gradients.x},
          {"grad_fc1_weight", gradients.fc1.weight},
          {"grad_fc1_bias", gradients.fc1.bias},
          {"grad_fc2_weight", gradients.fc2.weight},
          {"grad_fc2_bias", gradients.fc2.bias}};
}

void expect_within_bounds(const Values& ours, const json& numbers) {
  const Values theirs = matrix(numbers);
  ASSERT_EQ(ours.rows(), theirs.rows());
  ASSERT_EQ(ours.cols(), theirs.cols());
  ASSERT_EQ(numbers.size(), static_cast<std::size_t>(theirs.size()) + 2);
  for (Eigen::Index i = 0; i < ours.size(); ++i) {
    const Bounded& mine = ours.data()[i];
    const double value = theirs.data()[i].value();
    EXPECT_TRUE(std::isfinite(mine.error())) << "element " << i;
    EXPECT_LE(std::fabs(mine.value() - value), mine.error())
        << "element " << i << ": ours is " << mine.value() << ", PyTorch's " << value;
  }
}

/// Returns the output and a gradient for each input, so that nothing that could be compared is left out
/// of a line.
std::set<std::string> names_to_compare(const Line& line) {
  std::set<std::string> names = {"output"};
  for (const auto& [name, input] : line.inputs().items()) names.insert("grad_" + name);
  return names;
}

/// Compares all lines of a piece. Their number is stated, so that none is lost when the file is written anew.
void expect_lines(const std::string& piece, int expected, Results (*run)(const Line&)) {
  int compared = 0;
  for (const Line& line : all_lines()) {
    if (line.piece() != piece) continue;
    SCOPED_TRACE(line.name());
    const Results ours = run(line);
    std::set<std::string> names;
    for (const auto& [name, numbers] : line.values().items()) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(ours.contains(name));
      expect_within_bounds(ours.at(name), numbers);
      names.insert(name);
    }
    EXPECT_EQ(names, names_to_compare(line));
    ++compared;
  }
  EXPECT_EQ(compared, expected) << "lines of " << piece;
}

TEST(TorchValues, Linear) { expect_lines("linear", 2, of_linear); }
TEST(TorchValues, Embedding) { expect_lines("embedding", 2, of_embedding); }
TEST(TorchValues, Norm) { expect_lines("norm", 4, of_norm); }
TEST(TorchValues, CrossEntropy) { expect_lines("cross_entropy", 4, of_cross_entropy); }
TEST(TorchValues, Attention) { expect_lines("attention", 4, of_attention); }
TEST(TorchValues, Rotation) { expect_lines("rotation", 1, of_rotation); }
TEST(TorchValues, SelfAttention) { expect_lines("self_attention", 4, of_self_attention); }
TEST(TorchValues, Activation) { expect_lines("activation", 3, of_activation); }
TEST(TorchValues, Mlp) { expect_lines("mlp", 7, of_mlp); }

TEST(TorchValues, EveryPieceOfTheFileHasATest) {
  std::set<std::string> pieces;
  for (const Line& line : all_lines()) pieces.insert(line.piece());
  EXPECT_EQ(pieces, (std::set<std::string>{"activation", "attention", "cross_entropy", "embedding", "linear",
                                           "mlp", "norm", "rotation", "self_attention"}));
}

}  // namespace
