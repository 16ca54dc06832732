#include "verify/megatron_rules/run_account.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "sim/base/check.h"
#include "verify/output/table_rows.h"
#include "verify/vocabulary/nearest_name.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

constexpr std::string_view kCases =
#include "argument_cases.tsv.inc"
    ;

Unproved unproved_of(const std::string& word) {
  static constexpr std::string_view kWords[] = {"nothing", "memory", "training", "layers", "groups"};
  const auto* found = std::ranges::find(kWords, word);
  CHECK(found != std::end(kWords));
  return static_cast<Unproved>(found - std::begin(kWords));
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

}  // namespace

bool ArgumentCase::has_plain(const std::string& value) const {
  return std::ranges::find(plain, value) != plain.end();
}

const ArgumentCase* find_argument_case(std::string_view argument, std::string_view about) {
  static const std::vector<ArgumentCase> cases = made_of_rows(kCases, [](const TextRow& row) {
    return ArgumentCase{row.at(0), row.at(1), words_of_cell(row.at(2)), unproved_of(row.at(3)), row.at(4)};
  });
  const auto found = std::ranges::find_if(
      cases, [&](const ArgumentCase& one) { return one.argument == argument && one.about == about; });
  return found == cases.end() ? nullptr : &*found;
}

RunAccount account_of(const RunValues& values) {
  RunAccount account;
  for (const auto& [name, value] : values.all()) {
    const ArgumentRow* row = find_argument(name);
    if (row == nullptr) {
      account.unknown.push_back({name, value.line, nearest_name(name, argument_names())});
      continue;
    }
    AccountedArgument argument{name, values.text(name), value.line, row->sentence, row->unproved};
    ArgumentUse use = row->use;
    if (const ArgumentCase* rule = find_argument_case(name, "model")) {
      const bool is_plain = rule->has_plain(argument.value);
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
    std::vector<AccountedArgument>* lists[] = {&account.used, &account.without_effect,
                                               &account.not_modelled};  // in the order of ArgumentUse
    lists[static_cast<std::size_t>(use)]->push_back(std::move(argument));
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

bool is_option_of_memory(const std::string& name) {
  const OptionInfo* option = find_option(name);
  return option != nullptr && option->section == kMemorySection;
}

bool holds_less(const AccountedArgument& argument) {
  return find_argument_case(argument.name, "moved") != nullptr;
}

std::vector<AccountedArgument> uncounted_arguments(const RunValues& values, const RunAccount& account) {
  std::vector<AccountedArgument> uncounted;
  std::ranges::copy_if(
      account.not_modelled, std::back_inserter(uncounted), [](const AccountedArgument& argument) {
        return argument.unproved != Unproved::nothing && !is_option_of_memory(argument.name) &&
               find_argument_case(argument.name, "counted") == nullptr;
      });
  for (const auto& [name, value] : values.all()) {
    const ArgumentCase* found = find_argument_case(name, "memory");
    const std::string text = values.text(name);
    if (found == nullptr || found->has_plain(text) || text == "false" ||
        std::ranges::find(uncounted, name, &AccountedArgument::name) != uncounted.end())
      continue;
    uncounted.push_back({.name = name,
                         .value = text,
                         .line = value.line,
                         .sentence = found->sentence,
                         .unproved = found->unproved});
  }
  std::ranges::sort(uncounted, {}, &AccountedArgument::name);
  return uncounted;
}

}  // namespace verify
