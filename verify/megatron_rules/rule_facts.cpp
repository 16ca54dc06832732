#include "verify/megatron_rules/rule_facts.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/printable_text.h"
#include "verify/megatron_rules/effective_values.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/spelled_values.h"

namespace verify {

namespace {

using RuleWords = std::vector<std::string>;

using Derived = std::map<std::string, RuleValue, std::less<>>;

/// What rules derive of options. The legacy rule book clamps tp to the world.
Derived derived_of(const Settings& options) {
  const auto size = [&](const char* name) { return options.number(name).value_or(1); };
  const bool is_legacy = options.choice("rules") == "legacy";
  const std::optional<std::int64_t> world = options.number("world-size");
  std::int64_t tp = size("tensor-model-parallel-size");
  if (is_legacy) tp = std::min(tp, world.value_or(tp));
  const std::int64_t pp = size("pipeline-model-parallel-size"), cp = size("context-parallel-size");
  const std::optional<std::int64_t> experts = options.number("num-experts");
  const std::optional<std::int64_t> ranks =
      options.has("local-world-size") ? options.number("local-world-size") : world;
  Derived derived = {{"tp", number_or_absent(tp)},
                     {"pp", number_or_absent(pp)},
                     {"cp", number_or_absent(cp)},
                     {"dp", number_or_absent(floored(ranks, product_of({tp, pp, cp})))},
                     {"ep", number_or_absent(size("expert-model-parallel-size"))},
                     {"etp", number_or_absent(options.number("expert-tensor-parallel-size").value_or(tp))},
                     {"num_experts", experts == 0 ? RuleValue(Absent{}) : number_or_absent(experts)},
                     {"ffn_hidden_size", number_or_absent(ffn_hidden_size(options))},
                     {"mtp_num_layers", number_or_absent(options.number("mtp-num-layers"))},
                     {"moe_token_dispatcher_type", options.choice("moe-token-dispatcher-type")},
                     {"params_dtype", std::string(is_bf16(options) ? "bfloat16" : "other")}};
  if (options.has("position-embedding-type") || missing_of_model_shape(options).empty())
    derived["position_embedding_type"] = options.choice("position-embedding-type");
  if (options.has("num-layers") || !options.has("num-layers-per-virtual-pipeline-stage"))
    derived["vpp"] = number_or_absent(virtual_pipeline_size(options));
  return derived;
}

/// Cuts a word at the signs of a list of Python.
void add_words(const std::string& text, RuleWords& words) {
  std::string word;
  for (const char c : text + " ") {
    if (std::string_view("[]'\", ").find(c) == std::string_view::npos) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
}

}  // namespace

RuleValue number_or_absent(std::optional<std::int64_t> number) {
  return number ? RuleValue(static_cast<double>(*number)) : RuleValue(Absent{});
}

std::optional<bool> truth_of(const RuleValue& value) {
  if (std::holds_alternative<Unknown>(value)) return std::nullopt;
  const bool* truth = std::get_if<bool>(&value);
  return truth != nullptr ? *truth : !std::holds_alternative<Absent>(value);
}

std::optional<double> number_of(const RuleValue& value) {
  if (const double* number = std::get_if<double>(&value)) return *number;
  const RuleWords* words = std::get_if<RuleWords>(&value);
  if (words == nullptr || words->size() != 1) return std::nullopt;
  const auto number = decimal_number(words->front());
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<std::string> text_of(const RuleValue& value) {
  if (std::holds_alternative<Unknown>(value)) return std::nullopt;
  if (const std::string* text = std::get_if<std::string>(&value)) return *text;
  if (const double* number = std::get_if<double>(&value)) {
    const bool is_whole = std::abs(*number) < 1e15 && *number == std::floor(*number);
    return is_whole ? fmt::format("{}", static_cast<std::int64_t>(*number)) : fmt::format("{}", *number);
  }
  const RuleWords* words = std::get_if<RuleWords>(&value);
  return words == nullptr ? "" : fmt::format("{}", fmt::join(*words, " "));
}

std::vector<std::string> words_of(const RuleValue& value) {
  RuleWords words;
  if (const std::string* text = std::get_if<std::string>(&value)) add_words(*text, words);
  if (const RuleWords* given = std::get_if<RuleWords>(&value))
    for (const std::string& word : *given) add_words(word, words);
  return words;
}

RuleFacts::RuleFacts(const Settings& options) : derived_(derived_of(options)) {
  for (const OptionInfo& option : option_vocabulary()) {
    if (!options.has(option.name)) continue;
    const bool is_flag = option.kind == OptionKind::flag;
    if (is_flag && !options.flag(option.name)) {
      false_flags_.insert(option.name);
    } else {
      set(option.name, {is_flag ? RuleWords() : options.given(option.name)});
    }
  }
}

RuleFacts::RuleFacts(const RunValues& values, const std::map<std::string, std::string>& environment,
                     std::optional<std::int64_t> world)
    : RunValues(values),
      environment_(environment.begin(), environment.end()),
      derived_({{"world", number_or_absent(world)}}),
      is_of_run_(true) {}

RuleValue RuleFacts::argument(std::string_view name) const {
  return has(name) ? RuleValue(words(name)) : RuleValue(Absent{});
}

RuleValue RuleFacts::environment(std::string_view name) const {
  const auto found = environment_.find(name);
  return found == environment_.end() ? RuleValue(Absent{}) : RuleValue(found->second);
}

RuleValue RuleFacts::derived(std::string_view name) const {
  if (const auto found = derived_.find(name); found != derived_.end()) return found->second;
  return is_of_run_ ? effective_value(name, *this) : RuleValue(Unknown{});
}

std::vector<std::string> RuleFacts::derived_names() const {
  std::vector<std::string> names;
  for (const auto& derived : derived_) names.push_back(derived.first);
  for (const EffectiveValue& row : effective_rows())
    if (is_of_run_) names.push_back(row.name);
  return names;
}

bool RuleFacts::is_given(std::string_view argument) const {
  return has(argument) || false_flags_.contains(argument);
}

std::string RuleFacts::told(std::string_view argument) const {
  if (!has(argument)) return fmt::format("no --{}", argument);
  const std::string value = sim::printable_text(text(argument)).substr(0, 60);
  return fmt::format("--{}{}{}", argument, value.empty() ? "" : " ", value);
}

}  // namespace verify
