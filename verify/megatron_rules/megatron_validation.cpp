#include "verify/megatron_rules/megatron_validation.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "sim/base/error.h"
#include "verify/megatron_rules/megatron_rule.h"

namespace verify {

namespace {

using megatron::Rule;

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all;
    for (const auto table : {megatron::model_rules, megatron::pipeline_rules, megatron::expert_rules,
                             megatron::overlap_rules, megatron::recompute_rules, megatron::dtype_rules})
      std::ranges::move(table(), std::back_inserter(all));
    return all;
  }();
  return rules;
}

bool is_read_by(const Rule& rule, Reader reader) {
  return std::all_of(rule.options.begin(), rule.options.end(),
                     [&](const char* option) { return overlap(option_named(option).readers, reader); });
}

/// Returns the first option of a rule that is given; its first one where none is.
const char* told_option(const Rule& rule, const Settings& settings) {
  const auto given =
      std::ranges::find_if(rule.options, [&](const char* option) { return settings.has(option); });
  return given == rule.options.end() ? rule.options.front() : *given;
}

bool is_among(const std::vector<std::string>& codes, const Rule& rule) {
  return std::find(codes.begin(), codes.end(), rule.code) != codes.end();
}

}  // namespace

std::vector<sim::Warning> megatron_warnings(const Settings& settings, const std::vector<std::string>& codes) {
  std::vector<sim::Warning> warnings;
  for (const Rule& rule : all_rules()) {
    const megatron::MaybeBreak found = is_among(codes, rule) ? rule.broken(settings) : std::nullopt;
    if (found) warnings.push_back({rule.code, fmt::format("{}: {}", found->numbers, rule.rule)});
  }
  return warnings;
}

std::string megatron_hint(const Settings& settings, const std::vector<std::string>& codes) {
  for (const Rule& rule : all_rules()) {
    const megatron::MaybeBreak found = is_among(codes, rule) ? rule.broken(settings) : std::nullopt;
    if (found) return found->hint;
  }
  return "";
}

std::vector<std::string> megatron_rule_codes() {
  std::vector<std::string> codes;
  for (const Rule& rule : all_rules()) codes.emplace_back(rule.code);
  return codes;
}

bool has_experts(const Settings& settings) {
  return settings.has("num-experts") ? megatron::experts_of(settings) > 0 : megatron::ep_of(settings) > 1;
}

void keep_megatron_refusals(const Settings& settings, Reader reader, sim::Refusals& refusals,
                            const std::vector<std::string>& left_out) {
  const bool is_legacy = settings.choice("rules") == "legacy";
  for (const Rule& rule : all_rules()) {
    if (!is_read_by(rule, reader) || (is_legacy && !rule.in_legacy) || is_among(left_out, rule)) continue;
    refusals.keep([&] {
      const megatron::MaybeBreak found = rule.broken(settings);
      if (!found) return;
      sim::refuse({.code = rule.code,
                   .option = fmt::format("--{}", told_option(rule, settings)),
                   .numbers = found->numbers,
                   .rule = rule.rule,
                   .hint = found->hint});
    });
  }
}

}  // namespace verify
