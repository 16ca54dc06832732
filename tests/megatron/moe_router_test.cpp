// Holds routing, dropping, permutation and the padding of maps against what Megatron's own functions compute.

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/experts/row_operations.h"
#include "sim/experts/token_dropping.h"
#include "sim/experts/token_permutation.h"
#include "sim/experts/topk_routing.h"
#include "tests/megatron/lines.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::are_near;
using test::Json;

ScoreFunction score_function_of(const Json& config) {
  const std::string name = config.at("score_function");
  for (const auto function : {ScoreFunction::softmax, ScoreFunction::sigmoid, ScoreFunction::sqrtsoftplus}) {
    if (name_of(function) == name) return function;
  }
  ADD_FAILURE() << "no score function " << name;
  return ScoreFunction::softmax;
}

std::int64_t number_or_zero(const Json& value) { return value.is_null() ? 0 : value.get<std::int64_t>(); }

TopKRoutingConfig routing_of(const Json& config) {
  TopKRoutingConfig routing{.topk = config.at("topk"),
                            .score_function = score_function_of(config),
                            .pre_softmax = config.at("pre_softmax"),
                            .num_groups = number_or_zero(config.at("num_groups")),
                            .group_topk = number_or_zero(config.at("group_topk"))};
  if (!config.at("scaling_factor").is_null())
    routing.scaling_factor = test::ratio_of(config.at("scaling_factor"));
  return routing;
}

/// Whether the option that is refused is one that Megatron's error is about.
bool is_refusal_of(const std::string& error, const std::string& option) {
  if (error == "TOPK_LARGER_THAN_DIMENSION")
    return option == "topk_routing topk" || option == "topk_routing group_topk";
  return error == "GROUPS_DO_NOT_DIVIDE_EXPERTS" && option == "topk_routing num_groups";
}

/// Returns the option that is refused, and "" if nothing is.
template <typename Work>
std::string refused_option(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.refusal().option;
  }
  return "";
}

/// Sums of 0 choose the groups, so which survive is not portable. What is: each token has topk experts, the
/// best of the groups that they lie in. Tokens with Megatron's experts have its values.
void expect_portable_part(const Json& line, const Tensor& logits, const TopKRoutingForward& forward,
                          const Tensor& grad_logits) {
  const RoutingMap& map = forward.routing.map;
  const RoutingMap theirs = test::map_of(line["map"]);
  const std::int64_t experts = map.experts();
  const std::int64_t width = experts / line["config"]["num_groups"].get<std::int64_t>();
  const std::vector<double> scores = test::values<double>(logits);
  for (std::int64_t t = 0; t < map.tokens(); ++t) {
    EXPECT_EQ(map.experts_of(t).size(), line["config"]["topk"].get<std::size_t>());
    for (const std::int64_t e : map.experts_of(t)) {
      const auto group = scores.begin() + t * experts + e / width * width;
      EXPECT_EQ(scores[static_cast<std::size_t>(t * experts + e)], *std::max_element(group, group + width));
    }
    if (map.experts_of(t) != theirs.experts_of(t)) continue;
    const auto row = static_cast<std::size_t>(t);
    EXPECT_TRUE(are_near(forward.routing.probs.rows(t, t + 1), line["probs"][row]));
    EXPECT_TRUE(are_near(grad_logits.rows(t, t + 1), line["grad_logits"][row]));
  }
}

TEST(MegatronMoeRouter, RoutesAsMegatronDoes) {
  CpuDevice device(0);
  int refused = 0;
  for (const Json& line : test::lines_of("moe/router.jsonl")) {
    SCOPED_TRACE("router line " + line["id"].dump() + " " + line["config"].dump());
    const Tensor logits = test::matrix_of(device, line["logits"]);
    const Tensor bias =
        line["expert_bias"].is_null() ? Tensor() : test::vector_of(device, line["expert_bias"]);
    const TopKRoutingConfig config = routing_of(line["config"]);
    if (line.contains("error")) {
      const std::string option = refused_option([&] { topk_routing(logits, config, bias); });
      EXPECT_TRUE(is_refusal_of(line["error"], option)) << option;
      ++refused;
      continue;
    }
    const TopKRoutingForward forward = topk_routing(logits, config, bias);
    const Tensor grad = topk_routing_backward(forward.saved, test::matrix_of(device, line["cotangent"]));
    if (line["kind"] == "group_score_zero") {
      expect_portable_part(line, logits, forward, grad);
      continue;
    }
    EXPECT_EQ(forward.routing.map, test::map_of(line["map"]));
    EXPECT_TRUE(are_near(forward.routing.probs, line["probs"]));
    EXPECT_TRUE(are_near(grad, line["grad_logits"]));
  }
  EXPECT_GT(refused, 0);
}

DropPolicy policy_of(const Json& config) {
  return config.at("policy") == "probs" ? DropPolicy::probs : DropPolicy::position;
}

/// The columns in which Megatron's choice does not hang on the order of equal scores are equal. In the others
/// as many tokens are kept.
void expect_columns(const Json& line, const TokenDroppingForward& forward, const Tensor& grad) {
  const RoutingMap wanted = test::map_of(line["map"]);
  const std::vector<double> probs = test::values<double>(forward.routing.probs);
  const std::vector<double> grads = test::values<double>(grad);
  const std::vector<double> their_probs = test::numbers_of(line["probs"]);
  const std::vector<double> their_grads = test::numbers_of(line["grad_probs_in"]);
  const std::vector<std::int64_t> tied = line["tied_experts"];
  for (std::int64_t e = 0; e < wanted.experts(); ++e) {
    EXPECT_EQ(forward.routing.map.tokens_of(e).size(), wanted.tokens_of(e).size()) << "expert " << e;
    if (std::find(tied.begin(), tied.end(), e) != tied.end()) continue;
    EXPECT_EQ(forward.routing.map.tokens_of(e), wanted.tokens_of(e)) << "expert " << e;
    for (std::int64_t t = 0; t < wanted.tokens(); ++t) {
      const auto i = static_cast<std::size_t>(t * wanted.experts() + e);
      EXPECT_EQ(probs[i], their_probs[i]);  // they are moved, not computed
      EXPECT_EQ(grads[i], their_grads[i]);
    }
  }
}

TEST(MegatronMoeDropping, DropsAsMegatronDoes) {
  CpuDevice device(0);
  for (const Json& line : test::lines_of("moe/dropping.jsonl")) {
    const Json& config = line["config"];
    SCOPED_TRACE("dropping line " + line["id"].dump() + " " + config.dump());
    EXPECT_EQ(expert_capacity(config["tokens"], config["topk"], config["experts"], config["capacity_factor"]),
              line["capacity"].get<std::int64_t>());
    const Routing routing{test::matrix_of(device, line["probs_in"]), test::map_of(line["map_in"])};
    const TokenDroppingForward forward = drop_tokens(routing, config["topk"],
                                                     {.capacity_factor = config["capacity_factor"],
                                                      .drop_policy = policy_of(config),
                                                      .pad_to_capacity = config["pad_to_capacity"]});
    expect_columns(line, forward,
                   drop_tokens_backward(forward.saved, test::matrix_of(device, line["cotangent"])));
  }
}

/// Runs stand-in experts over the rows, which multiply row i by row_weight(i) and by its probability.
void expect_permuted(Device& device, const Json& line, const RowOrder& order) {
  EXPECT_EQ(order.sorted_indices, line["sorted_indices"].get<std::vector<std::int32_t>>());
  const Tensor x = test::matrix_of(device, line["x"]);
  const Tensor probs = test::matrix_of(device, line["probs_in"]);
  const Tensor weights = test::vector_of(device, line["row_weight"]);
  const Tensor rows = permute(x, order);
  const Tensor row_probs = permute_probs(probs, order);
  EXPECT_EQ(test::values<double>(rows), test::numbers_of(line["permuted_x"]));
  EXPECT_EQ(test::values<double>(row_probs), test::numbers_of(line["permuted_probs"]));

  const Tensor weighted = scaled_rows(rows, weights);
  EXPECT_TRUE(are_near(unpermute(scaled_rows(weighted, row_probs), order), line["out"]));
  EXPECT_TRUE(are_near(unpermute_weighted(weighted, probs, order), line["out_probs_at_unpermute"]));

  const Tensor grad = test::matrix_of(device, line["cotangent"]);
  const Tensor grad_rows = unpermute_backward(grad, order);
  EXPECT_TRUE(are_near(permute_probs_backward(row_dots(grad_rows, weighted), order), line["grad_probs"]));
  const Tensor grad_weighted = scaled_rows(scaled_rows(grad_rows, row_probs), weights);
  EXPECT_TRUE(are_near(permute_backward(grad_weighted, order), line["grad_x"]));
  // The older way has the same gradients.
  const WeightedGrads older = unpermute_weighted_backward(weighted, probs, grad, order);
  EXPECT_TRUE(are_near(older.grad_probs, line["grad_probs"]));
  EXPECT_TRUE(are_near(permute_backward(scaled_rows(older.grad_rows, weights), order), line["grad_x"]));
}

void expect_sorted_chunks(Device& device, const Json& line) {
  const std::vector<std::int64_t> sizes = line["split_sizes"], chunks = line["order"];
  std::vector<double> numbers;
  for (std::size_t i = 0; i < line["rows"].size(); ++i) numbers.push_back(static_cast<double>(i));
  const Tensor rows =
      test::tensor_of(device, DType::f64, {static_cast<std::int64_t>(numbers.size()), 1}, numbers);
  const Tensor sorted = sort_chunks_by_idxs(rows, sizes, chunks);
  EXPECT_EQ(test::values<double>(sorted), test::numbers_of(line["rows"]));
  EXPECT_EQ(test::values<double>(sort_chunks_by_idxs_backward(sorted, sizes, chunks)), numbers);
}

TEST(MegatronMoePermute, PermutesAsMegatronDoes) {
  CpuDevice device(0);
  int refused = 0;
  for (const Json& line : test::lines_of("moe/permute.jsonl")) {
    const Json& config = line["config"];
    SCOPED_TRACE("permute line " + line["id"].dump() + " " + config.dump());
    if (config["mode"] == "sort_chunks") {
      expect_sorted_chunks(device, line);
      continue;
    }
    const RoutingMap map = test::map_of(line["map"]);
    if (config["mode"] == "pad_routing_map") {
      EXPECT_EQ(pad_routing_map(map, config["multiple"]), test::map_of(line["padded_map"]));
      continue;
    }
    const auto order = [&] {
      if (!config["drop_and_pad"].get<bool>()) return row_order(map, device);
      return padded_row_order(map, config["num_out_tokens"].get<std::int64_t>() / map.experts(), device);
    };
    if (line.contains("error")) {
      EXPECT_EQ(line["error"], "CAPACITY_ABOVE_TOKENS_WITH_PAD");
      EXPECT_EQ(refused_option(order), "pad_to_capacity");
      ++refused;
      continue;
    }
    const RowOrder rows = order();
    EXPECT_EQ(static_cast<std::int64_t>(rows.sorted_indices.size()),
              config["num_out_tokens"].get<std::int64_t>());
    expect_permuted(device, line, rows);
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
