// Holds whole layers of experts against what Megatron's own MoELayer computes on 2 and 4 ranks: what each
// expert receives, outputs, gradients of inputs and weights, the marks of the parameters, and the collectives
// in order.

#include "sim/experts/moe_layer.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "tests/megatron/lines.h"
#include "tests/support/tensor_values.h"

namespace {

using namespace sim;
using test::are_near;
using test::Json;

GatedActivation activation_of(const Json& config) {
  GatedActivation activation{.gated = config["gated"]};
  const std::string name = config["activation"];
  if (name == "silu") activation.function = Activation::silu;
  if (name == "gelu") activation.function = Activation::gelu_erf;
  if (name == "relu") {
    activation.own = std::make_shared<ElementFunction>(element_function(
        "relu", [](auto x) { return x < 0 ? decltype(x)(0) : x; },
        [](auto x) { return x > 0 ? decltype(x)(1) : decltype(x)(0); }));
  }
  if (name == "identity") {
    activation.own = std::make_shared<ElementFunction>(element_function(
        "identity", [](auto x) { return x; }, [](auto x) { return decltype(x)(x - x + 1); }));
  }
  return activation;
}

TopKRouterConfig router_of(const Json& config) {
  const bool is_sigmoid = config["score_function"] == "sigmoid";
  TopKRouterConfig router{
      .name = "router",
      .dtype = DType::f64,
      .hidden_size = config["hidden"],
      .num_experts = config["experts"],
      .routing = {.topk = config["topk"],
                  .score_function = is_sigmoid ? ScoreFunction::sigmoid : ScoreFunction::softmax,
                  .pre_softmax = config["pre_softmax"]},
      .expert_bias = config["expert_bias"],
      .sequence_parallel = config["tp"].get<int>() > 1};
  if (!config["scaling_factor"].is_null())
    router.routing.scaling_factor = test::ratio_of(config["scaling_factor"]);
  if (!config["z_coeff"].is_null()) router.z_loss_coefficient = test::ratio_of(config["z_coeff"]);
  const Ratio coefficient = test::ratio_of(config["aux_coeff"]);
  if (config["aux"] == "aux_loss") router.aux_losses = {{AuxLossKind::aux_loss, coefficient}};
  if (config["aux"] == "seq_aux_loss") router.aux_losses = {{AuxLossKind::seq_aux_loss, coefficient}};
  if (config["aux"] == "global_aux_loss") router.aux_losses = {{AuxLossKind::global_aux_loss, coefficient}};
  if (!config["capacity_factor"].is_null()) {
    router.token_dropping = {.capacity_factor = config["capacity_factor"],
                             .pad_to_capacity = config["pad_to_capacity"]};
  }
  return router;
}

MoeLayerConfig layer_of(const Json& config) {
  const GatedActivation activation = activation_of(config);
  MoeLayerConfig layer{.router = router_of(config),
                       .experts = {.name = "experts",
                                   .dtype = DType::f64,
                                   .hidden_size = config["hidden"],
                                   .ffn_hidden_size = config["ffn"],
                                   .activation = activation},
                       .dispatcher = config["dispatcher"] == "alltoall" ? TokenDispatcherType::alltoall
                                                                        : TokenDispatcherType::allgather};
  if (config["shared_ffn"].is_null()) return layer;
  layer.shared_experts = {.mlp = {.name = "shared_experts",
                                  .dtype = DType::f64,
                                  .hidden_size = config["hidden"],
                                  .ffn_hidden_size = config["shared_ffn"],
                                  .activation = activation.function,
                                  .gated = activation.gated,
                                  .own_activation = activation.own,
                                  .bias = false,
                                  .sequence_parallel = config["tp"].get<int>() > 1}};
  return layer;
}

void load(Parameter& parameter, const Json& values) {
  copy(test::matrix_of(parameter.value.device(), values), parameter.value);
}

/// [seq_local][batch][H] as [T, H].
Tensor tokens_of(Device& device, const Json& values, std::int64_t hidden) {
  const std::vector<double> numbers = test::numbers_of(values);
  return test::tensor_of(device, DType::f64, {std::ssize(numbers) / hidden, hidden}, numbers);
}

void publish_experts(Rank& rank, MoeLayer& layer, const MoeLayer::Saved& saved) {
  const auto of_expert = [&](std::size_t e, const char* what) { return fmt::format("{} {}", what, e); };
  for (std::size_t e = 0; e < saved.experts.experts.size(); ++e) {
    rank.publish(of_expert(e, "input"), saved.experts.experts[e].rows);
    rank.publish(of_expert(e, "probs"), saved.experts.experts[e].probs);
    rank.publish(of_expert(e, "grad_fc1"), layer.experts().experts()[e].fc1_weight.main_grad);
    rank.publish(of_expert(e, "grad_fc2"), layer.experts().experts()[e].fc2_weight.main_grad);
  }
}

void run_layer(const Json& line, Rank& rank) {
  const Json& config = line["config"];
  const auto id = static_cast<std::size_t>(rank.id);
  const Json& own = line["expected"][id];
  MoeLayer layer(rank, layer_of(config));
  load(layer.router().weight(), line["router_weight"]);
  if (config["expert_bias"].get<bool>())
    copy(test::vector_of(rank.device, line["expert_bias"]), layer.router().expert_bias());
  if (own.contains("fc1")) {
    for (std::size_t e = 0; e < layer.experts().experts().size(); ++e) {
      load(layer.experts().experts()[e].fc1_weight, own["fc1"][e]);
      load(layer.experts().experts()[e].fc2_weight, own["fc2"][e]);
    }
  }
  if (SharedExperts* shared = layer.shared_experts()) {
    load(shared->mlp().linear_fc1().weight(), own["shared_fc1"]);
    load(shared->mlp().linear_fc2().weight(), own["shared_fc2"]);
  }
  const Tensor input = tokens_of(rank.device, line["x"][id], config["hidden"]);
  const auto forward = layer.forward(input, {.batch_size = config["batch"]});
  const Tensor grad =
      layer.backward(forward.saved, tokens_of(rank.device, line["cotangent"][id], config["hidden"]),
                     test::ratio_of(config["aux_scale"]));
  rank.publish("map", forward.map.tensor(rank.device));
  rank.publish("output", forward.output);
  rank.publish("grad_x", grad);
  rank.publish("grad_router", layer.router().weight().main_grad);
  publish_experts(rank, layer, forward.saved);
  if (SharedExperts* shared = layer.shared_experts()) {
    rank.publish("grad_shared_fc1", shared->mlp().linear_fc1().weight().main_grad);
    rank.publish("grad_shared_fc2", shared->mlp().linear_fc2().weight().main_grad);
  }
  EXPECT_EQ(layer.experts().parameters().front()->attributes.allreduce,
            own.value("allreduce_attr", Json::object()).value("expert", Json(nullptr)) != Json(false));
  const Json marks = own.value("sequence_parallel_attr", Json::object());
  EXPECT_EQ(layer.router().weight().attributes.sequence_parallel, marks.value("router", false));
}

/// A collective: its name, the size of its group, and the elements that go in and come out.
using Collective = std::tuple<std::string, int, std::int64_t, std::int64_t>;

/// Returns what a rank called, as Megatron's log has it: an uneven all_gather is one broadcast for each rank
/// that has rows, and an uneven reduce_scatter one reduce. What a rank receives in an uneven exchange is not
/// recorded.
std::vector<Collective> collectives_of(const RankReport& rank) {
  std::vector<Collective> all;
  std::optional<CallRecord> last;
  for (const CallRecord& call : rank.calls) {
    const int n = call.group->size();
    const bool is_gather = call.operation == Operation::broadcast,
               is_reduce = call.operation == Operation::reduce;
    if (is_gather || is_reduce) {
      const bool continues =
          last && last->operation == call.operation && std::string(last->site.name) == call.site.name;
      if (!continues) all.emplace_back(is_gather ? "all_gather" : "reduce_scatter", n, 0, 0);
      auto& [name, size, in, out] = all.back();
      (is_gather ? out : in) += call.count;
      if (call.group->rank_at(call.root_or_peer) == rank.rank) (is_gather ? in : out) += call.count;
    } else if (call.operation == Operation::all_gather) {
      all.emplace_back("all_gather", n, call.count, call.count * n);
    } else if (call.operation == Operation::reduce_scatter) {
      all.emplace_back("reduce_scatter", n, call.count * n, call.count);
    } else if (call.operation == Operation::all_reduce) {
      all.emplace_back("all_reduce", n, call.count, call.count);
    } else {
      all.emplace_back("all_to_all", n, call.count, -1);
    }
    last = call;
  }
  return all;
}

std::vector<Collective> collectives_of(const Json& expected) {
  std::vector<Collective> all;
  for (const char* pass : {"collectives_forward", "collectives_backward"}) {
    for (const Json& call : expected[pass]) {
      std::string name = call[0];
      if (name.ends_with("_v")) name.resize(name.size() - 2);
      all.emplace_back(name, call[1], call[2], name == "all_to_all" ? Json(-1) : call[3]);
    }
  }
  return all;
}

/// The numbers of all local experts, one after the other.
std::vector<double> of_experts(const RunReport& report, int rank, const char* what, std::size_t experts) {
  std::vector<double> all;
  for (std::size_t e = 0; e < experts; ++e) {
    const auto own = test::values<double>(report.find(rank, fmt::format("{} {}", what, e)));
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

void expect_rank(const RunReport& report, const Json& wanted) {
  const int rank = wanted["rank"];
  SCOPED_TRACE(fmt::format("rank {}", rank));
  const auto near = [&](const char* name) {
    EXPECT_TRUE(are_near(test::values<double>(report.find(rank, name)), test::numbers_of(wanted[name])))
        << name;
  };
  for (const char* name : {"output", "grad_x", "grad_router"}) near(name);
  if (wanted.contains("grad_shared_fc1"))
    for (const char* name : {"grad_shared_fc1", "grad_shared_fc2"}) near(name);
  const std::vector<std::int32_t> map = test::values<std::int32_t>(report.find(rank, "map"));
  EXPECT_EQ(std::vector<double>(map.begin(), map.end()), test::numbers_of(wanted["map"]));
  const std::size_t experts = wanted["local_experts"].size();
  const auto experts_near = [&](const char* name, const char* member) {
    EXPECT_TRUE(are_near(of_experts(report, rank, name, experts), test::numbers_of(wanted[member])))
        << member;
  };
  experts_near("input", "expert_input");
  experts_near("probs", "expert_input_probs");
  experts_near("grad_fc1", "grad_fc1");
  experts_near("grad_fc2", "grad_fc2");
  EXPECT_EQ(collectives_of(report.ranks[static_cast<std::size_t>(rank)]), collectives_of(wanted));
}

/// Whether a token has equal scores for an expert that is chosen and for one that is not. torch.topk does not
/// say which of them it takes. The products of the data are exact in binary, so that equal logits are equal
/// here.
bool has_tie(const Json& line) {
  const Json& config = line["config"];
  const std::vector<double> weight = test::numbers_of(line["router_weight"]), x = test::numbers_of(line["x"]);
  const std::size_t hidden = config["hidden"], experts = config["experts"], topk = config["topk"];
  for (std::size_t token = 0; token < x.size() / hidden; ++token) {
    std::vector<double> scores;
    for (std::size_t e = 0; e < experts; ++e) {
      double logit = 0;
      for (std::size_t h = 0; h < hidden; ++h) logit += weight[e * hidden + h] * x[token * hidden + h];
      const double bias = config["expert_bias"].get<bool>() ? line["expert_bias"][e].get<double>() : 0;
      scores.push_back(config["score_function"] == "sigmoid" ? 1 / (1 + std::exp(-logit)) + bias : logit);
    }
    std::sort(scores.rbegin(), scores.rend());
    if (topk < experts && scores[topk - 1] == scores[topk]) return true;
  }
  return false;
}

TEST(MegatronMoeLayer, RanksComputeWhatMegatronsDo) {
  for (const Json& line : test::lines_of("moe/moe_layer.jsonl")) {
    const Json& config = line["config"];
    if (has_tie(line)) continue;
    SCOPED_TRACE("moe_layer line " + line["id"].dump() + " " + config.dump());
    const ParallelSizes sizes{.world_size = config["world"],
                              .tensor_model_parallel_size = config["tp"],
                              .context_parallel_size = config["cp"],
                              .expert_model_parallel_size = config["ep"],
                              .expert_tensor_parallel_size = config["etp"].get<int>()};
    CpuDevice device(0);
    const RunReport report = simulate({.layout = make_layout(sizes, RuleBook::megatron)}, device,
                                      [&](Rank& rank) { run_layer(line, rank); });
    if (line["expected"][0].contains("error")) {
      EXPECT_FALSE(report.ok());
      EXPECT_NE(report.failure().find("capacity"), std::string::npos) << report.failure();
      continue;
    }
    ASSERT_TRUE(report.ok()) << report.failure();
    for (const Json& wanted : line["expected"]) expect_rank(report, wanted);
  }
}

}  // namespace
