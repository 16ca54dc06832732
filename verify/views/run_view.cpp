#include "verify/views/run_view.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "sim/base/printable_text.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/output/phrases.h"
#include "verify/output/wrapped_text.h"

namespace verify {

namespace {

std::string flag_of(const std::string& name) { return "--" + name; }

std::string with_value(const AccountedArgument& argument) {
  return argument.name + (argument.value.empty() ? "" : " " + sim::printable_text(argument.value));
}

constexpr std::size_t kIndent = 24;

/// Adds words between commas, in lines of at most `columns`.
void add_list(std::string& text, const char* title, std::vector<std::string> words, int columns) {
  if (words.empty()) return;
  const std::string head = fmt::format("  {} ({})", title, words.size());
  for (std::size_t i = 0; i + 1 < words.size(); ++i) words[i] += ",";
  text += wrapped_words(head, kIndent, {words.begin(), words.end()}, static_cast<std::size_t>(columns));
}

void add_lines(std::string& text, const char* title, const std::vector<std::string>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string head = i == 0 ? fmt::format("  {} ({})", title, lines.size()) : "";
    text += fmt::format("{:<{}}{}\n", head, kIndent, lines[i]);
  }
}

/// By RunFileKind.
constexpr const char* kKindPhrases[] = {"the log of a run", "YAML", "a launch script", "a command line"};

std::string text_of(const Unresolved& unknown) {
  const std::string argument = unknown.argument.empty() ? "" : flag_of(unknown.argument) + " ";
  const std::string set = unknown.variable.empty() ? "" : fmt::format(": --set {}=VALUE", unknown.variable);
  return fmt::format("line {}: {}{}, {}{}", unknown.line, argument, sim::printable_text(unknown.text),
                     unknown.reason, set);
}

bool is_without_effect(const RunAccount& account, const std::string& name) {
  return std::ranges::find(account.without_effect, name, &AccountedArgument::name) !=
         account.without_effect.end();
}

std::string sentence_of(const AccountedArgument& argument) {
  const bool is_in_memory = is_option_of_memory(argument.name);
  return argument.sentence + (is_in_memory ? "; its memory is counted" : "");
}

Json value_json(const std::vector<std::string>& words) {
  const auto one = [](const std::string& word) {
    const auto number = whole_number(word);
    return number ? Json(*number) : Json(word);
  };
  if (words.empty()) return true;
  if (words.size() == 1) return one(words.front());
  return json_list(words, one);
}

}  // namespace

std::vector<std::string> argument_sentences(const std::vector<AccountedArgument>& arguments) {
  std::vector<std::string> sentences;
  for (const AccountedArgument& argument : arguments) {
    const std::string ending = ": " + sentence_of(argument);
    const auto same = std::ranges::find_if(
        sentences, [&](const std::string& sentence) { return sentence.ends_with(ending); });
    if (same != sentences.end()) {
      same->insert(same->size() - ending.size(), ", --" + with_value(argument));
    } else {
      sentences.push_back("--" + with_value(argument) + ending);
    }
  }
  return sentences;
}

std::string run_title(const RunOfFile& run) {
  const RunArguments& arguments = run.document;
  std::string text =
      fmt::format("from {}: {}, {}", arguments.name, kKindPhrases[static_cast<std::size_t>(arguments.kind)],
                  counted(std::ssize(run.values.all()), "argument"));
  if (arguments.world_size)
    text += fmt::format(", {} ({})", counted(*arguments.world_size, "rank"), arguments.world_size_source);
  return text + "\n\n";
}

std::string run_lists(const RunOfFile& run, int columns, bool is_verbose) {
  std::string text;
  std::vector<std::string> used, without_effect, unknown, unresolved;
  for (const AccountedArgument& argument : run.account.used) used.push_back(with_value(argument));
  for (const AccountedArgument& argument : run.account.without_effect)
    without_effect.push_back(argument.name);
  for (const UnknownArgument& argument : run.account.unknown) {
    const std::string nearest =
        argument.nearest.empty() ? "" : fmt::format("; the nearest name is --{}", argument.nearest);
    unknown.push_back(
        fmt::format("--{} in line {}{}", sim::printable_text(argument.name), argument.line, nearest));
  }
  std::size_t others = 0;
  for (const Unresolved& entry : run.document.unresolved) {
    const std::string line = text_of(entry);
    const bool is_repeated = std::ranges::find(unresolved, line) != unresolved.end();
    const bool has_effect = !is_without_effect(run.account, entry.argument);
    if (has_effect && !is_repeated) unresolved.push_back(line);
    if (!has_effect) ++others;
  }
  if (is_verbose) add_list(text, "used", used, columns);
  add_lines(text, "not modelled", argument_sentences(run.account.not_modelled));
  add_lines(text, "unknown", unknown);
  add_lines(text, "unresolved", unresolved);
  if (others > 0 && is_verbose)
    text += fmt::format("{:<{}}{} more in values that have no effect\n",
                        unresolved.empty() ? "  unresolved" : "", kIndent, others);
  if (is_verbose) add_list(text, "without effect", without_effect, columns);
  add_lines(text, "notes", run.notes);
  return text.empty() ? "" : fmt::format("arguments of {}\n{}\n", run.document.name, text);
}

Json run_json(const RunOfFile& run) {
  Json used = Json::object(), not_modelled = Json::object();
  for (const AccountedArgument& argument : run.account.used)
    used[flag_of(argument.name)] = value_json(run.values.words(argument.name));
  for (const AccountedArgument& argument : run.account.not_modelled)
    not_modelled[flag_of(argument.name)] = sentence_of(argument);
  const auto flag_json = [](const auto& argument) { return flag_of(argument.name); };
  const auto unresolved_json = [](const Unresolved& entry) {
    Json one = {{"line", entry.line}, {"text", entry.text}, {"reason", entry.reason}};
    if (!entry.argument.empty()) one["argument"] = flag_of(entry.argument);
    if (!entry.variable.empty()) one["variable"] = entry.variable;
    return one;
  };
  return {{"kind", run_file_kind_name(run.document.kind)},
          {"used", std::move(used)},
          {"without_effect", json_list(run.account.without_effect, flag_json)},
          {"not_modelled", std::move(not_modelled)},
          {"unknown", json_list(run.account.unknown, flag_json)},
          {"unresolved", json_list(run.document.unresolved, unresolved_json)},
          {"notes", run.notes}};
}

}  // namespace verify
