#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/megatron_rules/expression.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/megatron_rules/rule_names.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/output/table_rows.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace verify {

namespace {

constexpr std::string_view kOptionsOfRun =
#include "options_of_run.tsv.inc"
    ;

/// Returns a word as this program's options spell it: a dtype, of which a log has the name of PyTorch, and a
/// choice, which it may spell as Python does, AttnBackend.flash.
std::string word_of_option(const std::string& word) {
  static constexpr std::pair<const char*, const char*> kDtypes[] = {{"torch.float32", "fp32"},
                                                                    {"torch.float16", "fp16"},
                                                                    {"torch.bfloat16", "bf16"},
                                                                    {"torch.uint8", "fp8"}};
  for (const auto& [name, argument] : kDtypes)
    if (word == name) return argument;
  constexpr std::string_view kPython = "Backend.";
  const std::size_t at = word.rfind(kPython);
  return at == std::string::npos ? word : word.substr(at + kPython.size());
}

/// Returns the values of an option that stands for the argument of its name.
std::vector<std::string> values_of(const OptionInfo& option, const RunValues& run) {
  std::vector<std::string> words = run.words(option.name);
  if (option.name == "cp-comm-type" && run.text("experimental-attention-variant") == "dsa")
    std::ranges::replace_if(words, gathers_tokens, std::string("all_gather"));  // which it spells otherwise
  switch (option.kind) {
    case OptionKind::flag:
      return {words.empty() ? "true" : words.front()};
    case OptionKind::numbers:
    case OptionKind::words:
      return words;
    case OptionKind::text:
      if (words.size() > 1) return {fmt::format("[{}]", fmt::join(words, ","))};  // a list of Python
      [[fallthrough]];
    default:
      return {word_of_option(run.text(option.name))};
  }
}

/// Copies the arguments that are used to the options of their names. What only the count of memory reads is
/// not judged elsewhere, and left out where it is not known.
void copy_arguments(RunOfFile& run) {
  for (const auto& [name, value] : run.values.all()) {
    const OptionInfo* option = find_option(name);
    const bool is_known = value.words.empty() || value.words.front().find('$') == std::string::npos;
    const bool is_used =
        std::ranges::find(run.account.used, name, &AccountedArgument::name) != run.account.used.end();
    if (option != nullptr && (is_option_of_memory(name) ? is_known : is_used))
      run.settings.append(name, values_of(*option, run.values));
  }
  if (run.document.gpus_per_node)
    run.settings.append("gpus-per-node", {std::to_string(*run.document.gpus_per_node)});
  if (!run.values.flag("moe-layer-recompute")) return;
  if (!run.settings.has("recompute-modules")) run.settings.append("recompute-modules", {"core_attn"});
  run.settings.append("recompute-modules", {"moe"});
}

struct OptionRow {
  std::string option;
  Expression when;
  std::optional<TextWithValues> becomes, note;
};
const std::vector<OptionRow>& option_rows() {
  static const std::vector<OptionRow> rows = [] {
    const auto text = [](const std::string& cell) {
      return cell == "-" ? std::nullopt : std::optional<TextWithValues>(cell);
    };
    std::vector<OptionRow> all;
    for (const TextRow& row : rows_of_table(kOptionsOfRun))
      all.push_back({row.at(0), Expression(row.at(1)), text(row.at(2)), text(row.at(3))});
    return all;
  }();
  return rows;
}

}  // namespace

void add_options(RunOfFile& run) {
  copy_arguments(run);
  const RuleFacts facts(run.values, {}, run.document.world_size);
  for (const OptionRow& row : option_rows()) {
    if (truth_of(row.when.value(facts)) != true) continue;
    if (row.note) run.notes.push_back(row.note->filled(facts));
    run.settings.remove(row.option);
    if (row.becomes) run.settings.append(row.option, {row.becomes->filled(facts)});
  }
}

}  // namespace verify
