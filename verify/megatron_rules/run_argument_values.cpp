#include "verify/megatron_rules/run_argument_values.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/output/table_rows.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/vocabulary/batch_schedule.h"
#include "verify/vocabulary/fork_choices.h"
#include "verify/vocabulary/number_hint.h"

namespace verify {

namespace {

constexpr std::string_view kChoices =
#include "argument_choices.tsv.inc"
    ;

struct Choices {
  std::string argument;
  bool is_open;  // forks and older versions add words of their own
  std::vector<std::string> words;
};

const std::vector<Choices>& all_choices() {
  static const std::vector<Choices> choices = [] {
    std::vector<Choices> all;
    for (const TextRow& row : rows_of_table(kChoices))
      all.push_back({row.at(0), row.at(1) == "warned-of", words_of_cell(row.at(2))});
    return all;
  }();
  return choices;
}

/// Refuses "--num-layers= 24".
[[noreturn]] void refuse_blank_behind_sign(const std::string& argument,
                                           const std::vector<std::string>& words) {
  const std::string value = sim::printable_text(words[1]).substr(0, 100);
  sim::refuse({.code = "not_a_number",
               .option = fmt::format("--{}", argument),
               .numbers = fmt::format("no value behind the '=', and '{}' as a word of its own", value),
               .rule = "no blank stands behind the '=' of an argument",
               .hint = fmt::format("--{}={}", argument, value)});
}

/// Returns what Python reads of a number behind blanks and a sign.
std::string_view without_sign_and_blanks(std::string_view word) {
  constexpr std::string_view kBlanks = " \t\n";
  word.remove_prefix(std::min(word.find_first_not_of(kBlanks), word.size()));
  word = word.substr(0, word.find_last_not_of(kBlanks) + 1);
  if (word.starts_with('+') || word.starts_with('-')) word.remove_prefix(1);
  return word;
}

/// Refuses a word that is no number where one is read. No word and several are refused otherwise.
void require_number(const std::string& argument, const std::vector<std::string>& words) {
  const NumberKind kind = number_kind_of_argument(argument);
  if (kind != NumberKind::none && words.size() > 1 && words[0].empty())
    refuse_blank_behind_sign(argument, words);
  if (kind == NumberKind::none || words.size() != 1) return;
  const std::string_view number = without_sign_and_blanks(words[0]);
  const bool are_digits = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
  if (are_digits) return;
  if (kind == NumberKind::whole) refuse_number(argument, words[0], "the value is a whole number");
  if (!decimal_number(number)) refuse_number(argument, words[0], "the value is a decimal number");
}

}  // namespace

bool is_choice_argument(std::string_view name) {
  return std::ranges::any_of(all_choices(),
                             [&](const Choices& one) { return !one.is_open && one.argument == name; });
}

bool keep_unreadable_values(const RunValues& values, sim::Refusals& refusals) {
  bool are_readable = true;
  for (const Choices& choices : all_choices())
    are_readable &= choices.is_open || refusals.keep([&] {
      for (const std::string& word : values.words(choices.argument))
        require_choice(choices.argument, word, choices.words);
    });
  for (const auto& [name, value] : values.all())
    are_readable &=
        refusals.keep([&, &argument = name, &words = value.words] { require_number(argument, words); });
  return !are_readable;
}

std::vector<std::pair<std::string, std::string>> words_of_forks(const RunValues& values) {
  std::vector<std::pair<std::string, std::string>> words;
  for (const Choices& choices : all_choices()) {
    for (const std::string& word : values.words(choices.argument))
      if (choices.is_open && std::ranges::find(choices.words, word) == choices.words.end() &&
          word.find('$') == std::string::npos)
        words.emplace_back(choices.argument, word);
  }
  return words;
}

}  // namespace verify
