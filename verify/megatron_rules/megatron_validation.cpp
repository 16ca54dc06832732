#include "verify/megatron_rules/megatron_validation.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/megatron_rules/rule_table.h"

namespace verify {

namespace {

/// Whether only a step would break a rule, of a run whose arguments Megatron takes.
bool is_of_a_step(const MegatronRule& rule, const RunOfFile& run) {
  const bool says_length = run.values.has("train-iters") || run.values.has("train-samples");
  return run.is_given() &&
         (rule.is("step") || (rule.is("training") && !says_length && !run.values.has("deepspeed")));
}

/// Whether the options of a run are not held to a rule.
bool is_left_out(const MegatronRule& rule, const RunOfFile& run) {
  const bool is_of_others = rule.is("megatron-experts") && run.values.has("deepspeed");
  return run.is_given() && (rule.is("bare") || is_of_others || is_of_a_step(rule, run));
}

/// Returns the refusals of the rules of a step that are broken.
std::vector<sim::Refusal> refusals_of_a_step(const Settings& settings, const RunOfFile& run) {
  std::vector<sim::Refusal> broken;
  if (!run.is_given()) return broken;
  const RuleFacts facts(settings);
  for (const MegatronRule& rule : megatron_rules())
    if (is_of_a_step(rule, run) && rule.is_broken(facts)) broken.push_back(rule.refusal(facts));
  return broken;
}

}  // namespace

std::vector<sim::Warning> megatron_warnings(const Settings& settings, const RunOfFile& run) {
  std::vector<sim::Warning> warnings;
  for (const sim::Refusal& broken : refusals_of_a_step(settings, run))
    warnings.push_back({broken.code, fmt::format("{}: {}", broken.numbers, broken.rule)});
  return warnings;
}

std::vector<sim::Warning> context_warnings(const Settings& settings) {
  std::vector<sim::Warning> warnings;
  const RuleFacts facts(settings);
  for (const MegatronRule& rule : megatron_rules()) {
    if (!rule.is("layer") || !rule.is_broken(facts)) continue;
    warnings.push_back({rule.code, fmt::format("{}, but {}; TransformerEngine stops at the first layer",
                                               rule.numbers.filled(facts), rule.rule)});
  }
  return warnings;
}

std::vector<sim::Warning> option_warnings(const Settings& settings, std::string_view command) {
  return table_warnings(command, RuleFacts(settings));
}

std::string megatron_hint(const Settings& settings, const RunOfFile& run) {
  const std::vector<sim::Refusal> broken = refusals_of_a_step(settings, run);
  return broken.empty() ? "" : broken.front().hint;
}

void keep_megatron_refusals(const Settings& settings, Reader reader, sim::Refusals& refusals,
                            const RunOfFile& run) {
  const bool is_legacy = settings.choice("rules") == "legacy";
  const RuleFacts facts(settings);
  for (const MegatronRule& rule : megatron_rules()) {
    const bool is_held = rule.is_of_options && overlap(rule.readers, reader) &&
                         (rule.is("sizes") || rule.is("bare") || !is_legacy) && !is_left_out(rule, run);
    refusals.keep([&] {
      if (is_held && rule.is_broken(facts)) sim::refuse(rule.refusal(facts));
    });
  }
}

}  // namespace verify
