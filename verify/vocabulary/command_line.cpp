#include "verify/vocabulary/command_line.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstddef>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <system_error>

#include "sim/base/refusals.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/output/table_rows.h"
#include "verify/run_arguments/shell_words.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/nearest_name.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace po = boost::program_options;

namespace verify {

namespace {

/// Boost gives an option that takes a list every word up to the next option. Words that end in ".ini" are
/// scenario files even there: they are moved to `scenarios`, and the remaining values are returned.
std::vector<std::string> without_scenarios(const std::string& option, const std::vector<std::string>& values,
                                           std::vector<std::string>& scenarios) {
  if (values.size() < 2 || option_named(option).kind == OptionKind::pair) return values;
  std::vector<std::string> rest;
  for (const std::string& value : values) (value.ends_with(".ini") ? scenarios : rest).push_back(value);
  return rest;
}

/// Refuses all options that do not exist, together.
void require_known_options(const po::parsed_options& parsed, const std::string& help) {
  sim::Refusals refusals;
  for (const po::option& option : parsed.options) {
    if (option.unregistered)
      refusals.keep([&] { refuse_unknown_option("--" + option.string_key, "", help); });
  }
  refusals.throw_if_any();
}

/// Whether a word is an argument although Boost made it the value of a flag: after --help every word, and
/// after other flags a scenario, or the path of a file or folder, such as one with dumps.
bool is_argument(const po::option& option, const std::string& value) {
  const bool stands_alone = option.original_tokens.size() > 1;  // as "--flag value", not as "--flag=value"
  if (option.string_key == "help") return true;
  if (!stands_alone || value == "true" || value == "false") return false;
  std::error_code error;
  return value.ends_with(".ini") || std::filesystem::exists(value, error);
}

void add_argument(CommandLine& line, const std::string& word) {
  if (line.command.empty()) {
    line.command = word;
  } else {
    line.scenarios.push_back(word);
  }
}

/// Whether a word gives a variable its value, as a shell reads it: NAME=VALUE or NAME+=VALUE.
bool is_assignment(const std::string& word) {
  std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  if (word[equals - 1] == '+') --equals;
  return equals > 0 && begins_shell_name(word[0]) &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), is_of_shell_name);
}

/// Whether the words after "--" are files that `inspect` is to read, as in "inspect -- dumps/*": it needs
/// some, and none stands before.
bool are_dumps(const CommandLine& line, const std::vector<std::string>& words) {
  return line.command == "inspect" && line.scenarios.empty() && !words.empty() &&
         std::ranges::all_of(words, [](const std::string& word) {
           std::error_code error;
           return std::filesystem::exists(word, error);
         });
}

/// Returns words as the text of a command line. The name of a variable that a word sets is not in quotes.
std::string text_of_command(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    const std::size_t begin = is_assignment(word) ? word.find('=') + 1 : 0;
    const std::string value = word.substr(begin);
    const bool is_plain = quoted_for_shell(value) == value;
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", word.substr(0, begin),
                        is_plain ? value : in_single_quotes(value));
  }
  return text;
}

/// Reads words with Boost. `help` is the call that explains the options.
std::vector<po::option> parsed_options(const std::vector<std::string>& words, const std::string& help) {
  po::options_description known = describe_options();
  known.add_options()("positional", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("positional", -1);
  po::parsed_options parsed(nullptr);
  try {
    namespace style = po::command_line_style;
    parsed = po::command_line_parser(words)
                 .options(known)
                 .positional(positional)
                 .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next)
                 .allow_unregistered()
                 .run();
  } catch (const po::error_with_option_name& error) {
    refuse_by("missing_value", error.get_option_name(), error.what(), help);
  } catch (const po::error& error) {
    refuse_by("missing_value", "command line", error.what(), help);
  }
  require_known_options(parsed, help);
  return parsed.options;
}

/// Returns the words with the full names of options in place of short ones.
std::vector<std::string> with_full_names(std::vector<std::string> words) {
  static const std::vector<TextRow> names = rows_of_table(
#include "short_names.tsv.inc"
  );
  for (std::string& word : words) {
    if (!word.starts_with("--")) continue;
    const std::size_t end = std::min(word.find('='), word.size());
    const auto row =
        std::ranges::find(names, word.substr(2, end - 2), [](const TextRow& r) { return r.at(0); });
    if (row != names.end()) word = "--" + row->at(1) + word.substr(end);
  }
  return words;
}

/// Gives the world its size where --dp is given in place of it.
void set_world_of_replicas(const std::vector<std::string>& words, CommandLine& line) {
  Settings& settings = line.settings;
  const bool gives_dp = std::ranges::any_of(
      words, [](const std::string& word) { return word == "--dp" || word.starts_with("--dp="); });
  const bool is_of_the_layout = line.command != "shards" && line.scenarios.empty() && !settings.has("from");
  if (!gives_dp || !is_of_the_layout || settings.has("world-size")) return;
  const auto size = [&](const char* name) { return settings.number(name).value_or(1); };
  const auto world = product_of({size("tensor-model-parallel-size"), size("pipeline-model-parallel-size"),
                                 size("context-parallel-size"), size("data-parallel-size")});
  if (!world) return;
  settings.append("world-size", {std::to_string(*world)});
  settings.remove("data-parallel-size");
}

/// Takes a word that is no option, or a value of none.
void take_word(const po::option& option, const std::string& help, CommandLine& line) {
  if (option.position_key < 0) refuse_unknown_option("--positional", "", help);
  if (option.value.at(0).starts_with('-'))
    refuse_unknown_option(option.value.at(0), "", help);  // a word with a single dash is not a scenario
  add_argument(line, option.value.at(0));
}

void take_option(const po::option& option, CommandLine& line) {
  std::vector<std::string> values = option.value;
  const bool is_flag = option_named(option.string_key).kind == OptionKind::flag;
  if (is_flag && !values.empty() && is_argument(option, values.front())) {
    add_argument(line, values.front());
    values.clear();
  }
  line.help = line.help || option.string_key == "help";
  line.version = line.version || option.string_key == "version";
  if (option.string_key == "help" || option.string_key == "version") return;
  add_given(option.string_key, without_scenarios(option.string_key, values, line.scenarios),
            " on the command line", line.settings);
}

/// Takes the words after "--".
void take_rest(const std::vector<std::string>& words, const std::string& help, CommandLine& line) {
  if (are_dumps(line, words)) {
    line.scenarios = words;
    return;
  }
  if (line.command == "run" || line.command == "exam") {
    line.program = words;
    return;
  }
  if (line.settings.has("command"))
    refuse_by("missing_value", "--command", "words after '--' are given, too", help);
  line.settings.append("command", {text_of_command(words)});
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& all_words) {
  const auto separator = std::find(all_words.begin(), all_words.end(), "--");
  const std::vector<std::string> arguments(all_words.begin(), separator);
  const std::string help = help_call(arguments.empty() ? "" : arguments.front());
  CommandLine line;
  for (const po::option& option : parsed_options(with_full_names(arguments), help)) {
    if (option.string_key == "positional") {
      take_word(option, help, line);
    } else {
      take_option(option, line);
    }
  }
  set_world_of_replicas(arguments, line);
  if (separator != all_words.end()) take_rest({separator + 1, all_words.end()}, help, line);
  return line;
}

namespace {

/// Returns what Boost has to know of an option: whether it takes a value, and how many.
po::value_semantic* value_of(const OptionInfo& option) {
  switch (option.kind) {
    case OptionKind::flag:
      return po::value<std::string>()->implicit_value("true");
    case OptionKind::numbers:
    case OptionKind::words:
    case OptionKind::pair:
      return po::value<std::vector<std::string>>()->multitoken();
    default:
      return po::value<std::string>();
  }
}

}  // namespace

po::options_description describe_options() {
  po::options_description all;
  for (const OptionInfo& option : option_vocabulary())
    all.add_options()(option.name.c_str(), value_of(option));
  return all;
}

void refuse_unknown_option(const std::string& option, const std::string& where, const std::string& help) {
  const std::size_t name_start = option.find_first_not_of('-');
  const std::string name = name_start == std::string::npos ? "" : option.substr(name_start);
  const std::string nearest = nearest_or_begun(name, names_of(option_vocabulary()));
  refuse_by(
      "unknown_option", option, where,
      nearest.empty() ? help : fmt::format("{}{}, or see {}", where.empty() ? "--" : "", nearest, help));
}

void add_given(const std::string& name, const std::vector<std::string>& values, const std::string& where,
               Settings& settings) {
  const OptionInfo& option = option_named(name);
  for (const std::string& value : values) {
    // Boost takes a following option as the value. A word with a blank is none: "--num-layers 32 --bf16".
    if (!value.starts_with("--") || value.find(' ') != std::string::npos) continue;
    refuse_by("missing_value", "--" + name, fmt::format("'{}' follows instead of a value{}", value, where),
              name == "command" ? "the command line of the run after '--', as in: -- --bf16"
                                : fmt::format("a value after --{}", name));
  }
  const bool repeatable = option.kind == OptionKind::texts || option.kind == OptionKind::words;
  if (settings.has(name) && !repeatable)
    refuse_by("given_twice", "--" + name, fmt::join(settings.given(name), " "), fmt::join(values, " "),
              where);
  const std::string alone =
      option.kind == OptionKind::flag ? "true" : "";  // the value of an option that is given without one
  settings.append(name, values.empty() ? std::vector<std::string>{alone} : values);
}

}  // namespace verify
