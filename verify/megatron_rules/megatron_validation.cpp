#include "verify/megatron_rules/megatron_validation.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/megatron_rules/rule_table.h"

namespace verify {

namespace {

bool is_among(const std::vector<std::string>& codes, const MegatronRule& rule) {
  return std::ranges::find(codes, rule.code) != codes.end();
}

/// Returns the refusals of the rules of these codes that are broken.
std::vector<sim::Refusal> broken_rules(const Settings& settings, const std::vector<std::string>& codes) {
  std::vector<sim::Refusal> broken;
  if (codes.empty()) return broken;
  const RuleFacts facts(settings);
  for (const MegatronRule& rule : megatron_rules())
    if (rule.is_of_options && is_among(codes, rule) && rule.is_broken(facts))
      broken.push_back(rule.refusal(facts));
  return broken;
}

}  // namespace

std::vector<sim::Warning> megatron_warnings(const Settings& settings, const std::vector<std::string>& codes) {
  std::vector<sim::Warning> warnings;
  for (const sim::Refusal& broken : broken_rules(settings, codes))
    warnings.push_back({broken.code, fmt::format("{}: {}", broken.numbers, broken.rule)});
  return warnings;
}

std::string megatron_hint(const Settings& settings, const std::vector<std::string>& codes) {
  const std::vector<sim::Refusal> broken = broken_rules(settings, codes);
  return broken.empty() ? "" : broken.front().hint;
}

void keep_megatron_refusals(const Settings& settings, Reader reader, sim::Refusals& refusals,
                            const std::vector<std::string>& left_out) {
  const bool is_legacy = settings.choice("rules") == "legacy";
  const RuleFacts facts(settings);
  for (const MegatronRule& rule : megatron_rules()) {
    const bool is_held = rule.is_of_options && overlap(rule.readers, reader) &&
                         (rule.is_legacy || !is_legacy) && !is_among(left_out, rule);
    if (is_held && rule.is_broken(facts)) refusals.keep([&] { sim::refuse(rule.refusal(facts)); });
  }
}

}  // namespace verify
