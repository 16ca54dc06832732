#include "verify/run_arguments/launch_words.h"

#include <algorithm>

#include "verify/output/table_rows.h"

namespace verify {

namespace {

constexpr std::string_view kLaunchWords =
#include "launch_words.tsv.inc"
    ;

/// Returns the row of the program that a word names; null for other words.
const LaunchWord* find_program(std::string_view word) {
  const std::string_view name = base_name(word);
  const auto found = std::ranges::find_if(
      launch_words(), [&](const LaunchWord& row) { return row.kind == "program" && row.word == name; });
  return found == launch_words().end() ? nullptr : &*found;
}

}  // namespace

const std::vector<LaunchWord>& launch_words() {
  static const std::vector<LaunchWord> words = made_of_rows(kLaunchWords, [](const TextRow& row) {
    return LaunchWord{row.at(0), row.at(1), row.at(2) == "-" ? "" : row.at(2), words_of_cell(row.at(3))};
  });
  return words;
}

bool is_program(std::string_view word, std::string_view meaning) {
  const LaunchWord* const row = find_program(word);
  return row != nullptr && std::ranges::find(row->means, meaning) != row->means.end();
}

std::string_view launcher_of(std::string_view word) {
  const LaunchWord* const row = find_program(word);
  return row == nullptr ? "" : std::string_view(row->launcher);
}

std::string_view meaning_of_option(std::string_view launcher, std::string_view option) {
  constexpr std::size_t kFewest = 4;  // a shorter word begins several options of torchrun
  const bool may_begin = launcher == "torchrun" && option.size() >= kFewest;
  const auto found = std::ranges::find_if(launch_words(), [&](const LaunchWord& row) {
    return row.kind == "option" && row.launcher == launcher &&
           (row.word == option || (may_begin && row.word.starts_with(option)));
  });
  return found == launch_words().end() ? "" : std::string_view(found->means.front());
}

std::size_t options_of_torchrun(std::span<const std::string> words) {
  std::size_t at = 0;
  while (at < words.size() && words[at].size() > 1 && words[at].starts_with('-')) {
    const std::string& word = words[at++];
    if (word == "--") break;
    const bool has_value = word.find('=') != std::string::npos || (word[1] != '-' && word.size() > 2);
    if (!has_value && meaning_of_option("torchrun", word) != "flag") ++at;
  }
  return std::min(at, words.size());
}

}  // namespace verify
