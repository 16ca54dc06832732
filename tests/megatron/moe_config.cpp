#include "tests/megatron/moe_config.h"

namespace test {

namespace {

sim::ScoreFunction score_function_of(const Json& config) {
  const std::string name = config.at("score_function");
  for (const auto function :
       {sim::ScoreFunction::softmax, sim::ScoreFunction::sigmoid, sim::ScoreFunction::sqrtsoftplus}) {
    if (name_of(function) == name) return function;
  }
  ADD_FAILURE() << "no score function " << name;
  return sim::ScoreFunction::softmax;
}

bool is_given(const Json& config, const char* option) {
  return config.contains(option) && !config[option].is_null();
}

}  // namespace

sim::TopKRoutingConfig routing_of(const Json& config) {
  sim::TopKRoutingConfig routing{.topk = config.at("topk"),
                                 .score_function = score_function_of(config),
                                 .pre_softmax = config.at("pre_softmax")};
  if (is_given(config, "num_groups")) routing.num_groups = config["num_groups"];
  if (is_given(config, "group_topk")) routing.group_topk = config["group_topk"];
  if (is_given(config, "scaling_factor")) routing.scaling_factor = ratio_of(config["scaling_factor"]);
  return routing;
}

}  // namespace test
