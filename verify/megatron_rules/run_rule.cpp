#include "verify/megatron_rules/run_rule.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/megatron_rules/effective_values.h"
#include "verify/vocabulary/batch_schedule.h"

namespace verify {

JudgedRun::JudgedRun(const RunValues& values, const std::map<std::string, std::string>& environment,
                     Number world)
    : values_(values), environment_(environment), world_(world), derived_(effective_values(values, world)) {}

std::optional<double> JudgedRun::decimal(const char* name) const { return decimal_number(text(name)); }

std::vector<std::string> JudgedRun::list(const char* name) const {
  std::vector<std::string> all;
  for (const std::string& word : values_.words(name)) {
    std::string one;
    for (const char c : word + " ") {
      const bool is_between = std::string_view("[]', ").find(c) != std::string_view::npos;
      if (!is_between) {
        one += c;
      } else if (!one.empty()) {
        all.push_back(std::exchange(one, ""));
      }
    }
  }
  return all;
}

bool JudgedRun::lists(const char* name, std::string_view word) const {
  const std::vector<std::string> words = list(name);
  return std::find(words.begin(), words.end(), word) != words.end();
}

JudgedRun::Number JudgedRun::derived(const char* name) const {
  const Json* value = derived_.find(name);
  return value != nullptr && value->is_integer() ? Number(value->integer()) : std::nullopt;
}

bool JudgedRun::derived_flag(const char* name) const {
  const Json* value = derived_.find(name);
  return value != nullptr && value->dump() == "true";
}

std::string JudgedRun::derived_text(const char* name) const {
  const Json* value = derived_.find(name);
  return value != nullptr && value->is_text() ? value->text() : "";
}

bool JudgedRun::recomputes(std::string_view module) const {
  const Json* modules = derived_.find("recompute_modules");
  return modules != nullptr &&
         std::any_of(modules->elements().begin(), modules->elements().end(),
                     [&](const Json& one) { return one.is_text() && one.text() == module; });
}

bool JudgedRun::is_absent(const char* name) const {
  const Json* value = derived_.find(name);
  return value == nullptr || value->is_null();
}

std::string JudgedRun::hybrid_pattern() const {
  return text("hybrid-layer-pattern", text("hybrid-override-pattern"));
}

bool JudgedRun::is_gated_delta_net() const {
  const std::string variant = text("experimental-attention-variant");
  return variant == "gdn" || variant == "gdn2" || variant == "gated_delta_net";
}

std::optional<std::string> JudgedRun::environment(const char* name) const {
  const auto found = environment_.find(name);
  return found == environment_.end() ? std::nullopt : std::optional(found->second);
}

std::string JudgedRun::told(const char* argument) const {
  if (!has(argument)) return fmt::format("no --{}", argument);
  const std::string value = sim::printable_text(text(argument)).substr(0, 60);
  return fmt::format("--{}{}{}", argument, value.empty() ? "" : " ", value);
}

std::string JudgedRun::told_derived(const char* name) const {
  const Json* value = derived_.find(name);
  return fmt::format("{} {}", name, value == nullptr ? "unknown" : value->dump());
}

bool is_undivided(JudgedRun::Number size, JudgedRun::Number parts) {
  return size && parts && *parts != 0 && *parts != -1 && *size % *parts != 0;
}

bool has_layer_graphs(const JudgedRun& run) {
  const std::string graph = run.derived_text("cuda_graph_impl");
  return graph == "local" || graph == "transformer_engine";
}

std::vector<std::string> captured_modules(const JudgedRun& run) {
  std::vector<std::string> modules = run.list("cuda-graph-modules");
  if (modules.empty()) modules = run.list("cuda-graph-scope");
  std::erase_if(modules, [](const std::string& one) { return one.starts_with("full"); });
  return modules;
}

bool captures_module(const JudgedRun& run, std::string_view module) {
  const std::vector<std::string> modules = captured_modules(run);
  return std::ranges::find(modules, module) != modules.end();
}

bool gathers_tokens(std::string cp_comm_type) {
  std::erase(cp_comm_type, '_');
  for (char& letter : cp_comm_type)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return cp_comm_type == "allgather";
}

JudgedRun::Number multiple_from(JudgedRun::Number size, JudgedRun::Number part) {
  constexpr std::int64_t kLargest = 1'000'000'000;
  if (!size || !part || *size < 1 || *part < 1 || *size > kLargest || *part > kLargest) return std::nullopt;
  return (*size + *part - 1) / *part * *part;
}

}  // namespace verify
