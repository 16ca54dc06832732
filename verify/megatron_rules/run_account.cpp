#include "verify/megatron_rules/run_account.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "verify/megatron_rules/memory_arguments.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

/// Values of an argument that is not modelled with which it changes nothing, and values of a used argument
/// that are not modelled.
struct ValueRule {
  std::string_view name;
  std::vector<std::string_view> plain;  // the values that change nothing, or that are modelled
  const char* sentence;                 // about every other value
  Unproved unproved;
};

const std::vector<ValueRule>& value_rules() {
  static const std::vector<ValueRule> rules = {
      {"optimizer",
       {"adam"},
       "this optimizer is not modelled: the training is proved with Adam",
       Unproved::training},
      {"spec", {"local"}, "layers of another specification are not modelled", Unproved::training},
      {"position-embedding-type",
       {"learned_absolute", "rope", "none"},
       "positions of this type are not modelled",
       Unproved::training},
      {"softmax-type", {"vanilla"}, "this softmax is not modelled", Unproved::training},
      {"moe-flex-dispatcher-backend",
       {},
       "this backend of the dispatcher is not modelled",
       Unproved::training},
      {"cpu-offloading-num-layers",
       {"0"},
       "memory that is moved to the host is not modelled",
       Unproved::memory},
      {"recompute-modules",
       {"core_attn"},
       "the recomputation of these modules is not simulated",
       Unproved::memory},
      {"model-provider", {"gpt"}, "this model is not modelled", Unproved::layers},
      {"moe-latent-size", {}, "experts in a latent space are not modelled", Unproved::training},
  };
  return rules;
}

const ValueRule* value_rule(std::string_view name) {
  const auto& rules = value_rules();
  const auto found =
      std::find_if(rules.begin(), rules.end(), [&](const ValueRule& r) { return r.name == name; });
  return found == rules.end() ? nullptr : &*found;
}

bool has_plain_value(const ValueRule& rule, const std::string& value) {
  return std::find(rule.plain.begin(), rule.plain.end(), value) != rule.plain.end();
}

/// Whether weights are in as many shards as tensor parallelism has ranks anyway.
bool has_shards_of_ranks(const std::string& name, const RunValues& values) {
  const auto tp = values.number("tensor-model-parallel-size").value_or(1);
  if (name == "tensor-parallel-num-weight-shards") return values.number(name) == tp;
  return name == "expert-tensor-parallel-num-weight-shards" &&
         values.number(name) == values.number("expert-tensor-parallel-size").value_or(tp);
}

bool matters(const ArgumentRow& row, const RunValues& values) {
  const auto is_given = [&](const std::string& name) { return values.has(name); };
  return row.only_with.empty() || std::ranges::any_of(row.only_with, is_given);
}

AccountedArgument accounted(const std::string& name, const RunValues::Value& value, const RunValues& values,
                            const ArgumentRow& row) {
  return {.name = name,
          .value = values.text(name),
          .line = value.line,
          .sentence = row.sentence,
          .unproved = row.unproved};
}

}  // namespace

RunAccount account_of(const RunValues& values) {
  RunAccount account;
  for (const auto& [name, value] : values.all()) {
    const ArgumentRow* row = find_argument(name);
    if (row == nullptr) {
      account.unknown.push_back({name, value.line, nearest_name(name, argument_names())});
      continue;
    }
    AccountedArgument argument = accounted(name, value, values, *row);
    ArgumentUse use = row->use;
    if (const ValueRule* rule = value_rule(name)) {
      const bool is_plain = has_plain_value(*rule, argument.value);
      if (is_plain && use == ArgumentUse::not_modelled) {
        use = ArgumentUse::without_effect;
        argument.sentence = "with this value it changes nothing";
      } else if (!is_plain) {
        use = ArgumentUse::not_modelled;
        argument.sentence = rule->sentence;
        argument.unproved = rule->unproved;
      }
    } else if (has_shards_of_ranks(name, values)) {
      use = ArgumentUse::without_effect;
      argument.sentence = "weights have as many shards without it";
    } else if (use == ArgumentUse::not_modelled && !matters(*row, values)) {
      use = ArgumentUse::without_effect;
      argument.sentence = fmt::format("it matters only beside --{}", row->only_with.front());
    }
    if (use == ArgumentUse::without_effect && is_option_of_memory(name)) use = ArgumentUse::used;
    switch (use) {
      case ArgumentUse::used:
        account.used.push_back(std::move(argument));
        break;
      case ArgumentUse::without_effect:
        account.without_effect.push_back(std::move(argument));
        break;
      case ArgumentUse::not_modelled:
        account.not_modelled.push_back(std::move(argument));
        break;
    }
  }
  return account;
}

std::string written(const AccountedArgument& argument) {
  return fmt::format("--{}{}{}", argument.name, argument.value.empty() ? "" : " ", argument.value);
}

const AccountedArgument* not_proved(const RunAccount& account, Unproved what) {
  const auto found = std::ranges::find_if(account.not_modelled, [&](const AccountedArgument& argument) {
    return argument.unproved >= what && argument.unproved != Unproved::nothing;
  });
  return found == account.not_modelled.end() ? nullptr : &*found;
}

}  // namespace verify
