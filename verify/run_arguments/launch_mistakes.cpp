#include "verify/run_arguments/launch_mistakes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/printable_text.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/run_arguments/argument_table.h"
#include "verify/run_arguments/launch_world.h"
#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

/// Returns a word with its value cut off: "--seq-length" of "--seq-length=4".
std::string_view without_value(std::string_view word) { return word.substr(0, word.find('=')); }

bool is_known(std::string_view name) {
  constexpr std::size_t kShortest = 3;
  return name.size() >= kShortest && find_argument(run_argument_name(name)) != nullptr;
}

/// Whether a word may be the value of the one before it.
bool may_be_value(const ShellFields& words, ShellFields::const_iterator word) {
  if (word == words.begin()) return false;
  const ShellField& before = *(word - 1);
  return awaits_value(before) && !has_blank(before.text) &&
         shape_of_argument(run_argument_name(before.text)) != ArgumentShape::flag;
}

void require_separate_words(const LaunchCommand& launch, const ShellValues& values) {
  constexpr std::size_t kMostShown = 60;
  if (!starts_python(launch)) return;
  ShellFields found;
  for (auto word = launch.arguments.begin(); word != launch.arguments.end(); ++word) {
    if (is_flag(word->text) && has_blank(without_value(word->text)) && !may_be_value(launch.arguments, word))
      found.push_back(*word);
  }
  if (found.empty()) return;
  const std::string& first = found.front().text;
  const std::string shown = sim::printable_text(values.shown(first).substr(0, kMostShown));
  const auto others = static_cast<std::int64_t>(found.size()) - 1;
  const std::string more = others == 0 ? "" : fmt::format(", and {} like it", counted(others, "more word"));
  refuse_by("arguments_in_one_word", fmt::format("line {}", found.front().line), shown,
            first.size() > kMostShown ? " ..." : "", more);
}

/// Returns the name of an argument behind signs that look like its dashes; "" where there is none.
std::string_view name_behind_other_dashes(std::string_view word) {
  constexpr std::array<std::string_view, 5> kDashes = {"-", "\u2013", "\u2014", "\u2212", "\u2010"};
  std::string_view name = word;
  bool has_other = false;
  const auto is_next = [&](std::string_view dash) { return name.starts_with(dash); };
  auto dash = std::ranges::find_if(kDashes, is_next);
  for (; dash != kDashes.end(); dash = std::ranges::find_if(kDashes, is_next)) {
    has_other = has_other || dash != kDashes.begin();
    name.remove_prefix(dash->size());
  }
  const bool has_one = word.starts_with('-') && name.size() + 1 == word.size();
  return (has_other || has_one) && is_known(without_value(name)) ? without_value(name) : "";
}

void require_dashes(const LaunchCommand& launch) {
  const auto refuse = [](const ShellField& word, const std::string& written, std::string_view name) {
    refuse_by("argument_without_dashes", fmt::format("line {}", word.line), sim::printable_text(written),
              name);
  };
  const ShellFields& words = launch.arguments;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const std::string_view name = name_behind_other_dashes(word->text);
    if (!name.empty()) refuse(*word, word->text, name);
    const bool is_apart = word->text == "--" && word + 1 != words.end() && is_known((word + 1)->text);
    if (is_apart) refuse(*word, "-- " + (word + 1)->text, (word + 1)->text);
  }
  // Words before all arguments: the script may take some of its own, but none of this name.
  if (words.empty()) return;
  const std::string& first = words.front().text;
  const bool is_bare = first.find('-') != std::string::npos && first.front() != '-' && is_known(first);
  if (is_bare) refuse(words.front(), first, first);
}

void require_own_side(const LaunchCommand& launch) {
  const auto launcher = std::ranges::find_if(launch.before, [](const ShellField& word) {
    const std::string_view name = base_name(word.text);
    return name == "torchrun" || name == "torch.distributed.run" || name == "torch.distributed.launch";
  });
  if (launcher == launch.before.end()) return;
  const std::string script = sim::printable_text(launch.script);
  for (auto word = launcher + 1; word != launch.before.end(); ++word) {
    const std::string written(without_value(word->text));
    if (!is_flag(written) || has_blank(written)) continue;
    const ArgumentRow* row = find_argument(run_argument_name(written));
    if (row != nullptr && row->use == ArgumentUse::used)
      refuse_by("argument_before_script", fmt::format("line {}", word->line), sim::printable_text(written),
                script);
  }
  for (const ShellField& word : launch.arguments) {
    const std::string written(without_value(word.text));
    const std::string name = is_flag(written) ? run_argument_name(written) : "";
    const bool is_of_torchrun = name == "nnodes" || name == "nproc-per-node";
    if (is_of_torchrun && find_argument(name) == nullptr)
      refuse_by("launcher_behind_script", fmt::format("line {}", word.line), sim::printable_text(written),
                script);
  }
}

}  // namespace

void require_words_in_place(const LaunchCommand& launch, const ShellValues& values) {
  if (launch.script.empty()) return;
  require_separate_words(launch, values);
  require_dashes(launch);
  require_own_side(launch);
}

}  // namespace verify
