#include "verify/settings.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/layout/size_rules.h"
#include "verify/nearest_name.h"

namespace po = boost::program_options;

namespace verify {

namespace {

constexpr std::size_t kMaxScenarioBytes = 1 << 20;

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const OptionInfo& option : option_vocabulary()) names.emplace_back(option.name);
  return names;
}

const OptionInfo& option_named(const std::string& name) {
  const auto& all = option_vocabulary();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const OptionInfo& o) { return name == o.name; });
  CHECK(found != all.end());
  return *found;
}

void describe(const OptionInfo& option, po::options_description& part) {
  auto add = part.add_options();
  switch (option.kind) {
    case OptionKind::flag:
      add(option.name, po::value<std::string>()->implicit_value("true"), option.help);
      break;
    case OptionKind::size:
    case OptionKind::number:
      add(option.name, po::value<std::string>()->value_name("N"), option.help);
      break;
    case OptionKind::numbers:
      add(option.name, po::value<std::vector<std::string>>()->multitoken()->value_name("N..."), option.help);
      break;
    case OptionKind::choice:
    case OptionKind::text:
    case OptionKind::texts:
    case OptionKind::words:
      add(option.name, po::value<std::string>()->value_name("TEXT"), option.help);
      break;
  }
}

po::options_description describe_all() {
  po::options_description all(110);
  std::vector<std::string> sections;
  for (const OptionInfo& option : option_vocabulary()) {
    if (std::find(sections.begin(), sections.end(), option.section) == sections.end()) {
      sections.emplace_back(option.section);
    }
  }
  for (const std::string& section : sections) {
    po::options_description part(section, 110);
    for (const OptionInfo& option : option_vocabulary()) {
      if (section == option.section) describe(option, part);
    }
    all.add(part);
  }
  return all;
}

[[noreturn]] void refuse_unknown(const std::string& option, const std::string& where) {
  const std::size_t name_start = option.find_first_not_of('-');
  const std::string name = name_start == std::string::npos ? "" : option.substr(name_start);
  const std::string nearest = nearest_name(name, option_names());
  sim::refuse({.code = "unknown_option",
               .option = option,
               .numbers = fmt::format("not known{}", where),
               .rule = "options are written out in full; scenario files use the same names without '--'",
               .hint = nearest.empty() ? "shardproof --help" : fmt::format("--{}", nearest)});
}

/// Adds the values of one occurrence of an option; the same option twice is refused unless it is a list.
void add_values(Settings& settings, std::map<std::string, std::vector<std::string>>& seen,
                const std::string& name, const std::vector<std::string>& values, const std::string& where) {
  const OptionInfo& option = option_named(name);
  for (const std::string& value : values) {
    if (!value.starts_with("--")) continue;  // Boost takes the next option for the value of one that lacks it
    sim::refuse({.code = "missing_value",
                 .option = "--" + name,
                 .numbers = fmt::format("followed by '{}'{}", value, where),
                 .rule = "--option value or --option=value; flags take no value",
                 .hint = fmt::format("a value behind --{}", name)});
  }
  std::vector<std::string>& all = seen[name];
  const bool repeatable = option.kind == OptionKind::texts || option.kind == OptionKind::words;
  if (!all.empty() && !repeatable) {
    sim::refuse({.code = "given_twice",
                 .option = "--" + name,
                 .numbers = fmt::format("given as '{}' and again as '{}'{}", fmt::join(all, " "),
                                        fmt::join(values, " "), where),
                 .rule = "an option stands once",
                 .hint = "keep one of them"});
  }
  all.insert(all.end(), values.begin(), values.end());
  if (all.empty()) all.emplace_back(option.kind == OptionKind::flag ? "true" : "");
  settings.set(name, all);
}

std::int64_t parse_number(const std::string& name, const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  const bool is_number = stop == end && !text.empty() && error != std::errc::invalid_argument;
  if (!is_number) {
    sim::refuse({.code = "not_a_number",
                 .option = "--" + name,
                 .numbers = fmt::format("'{}'", text),
                 .rule = "a whole number in decimal digits",
                 .hint = fmt::format("--{} 1", name)});
  }
  if (error == std::errc::result_out_of_range || value > kLargest || value < -kLargest) {
    sim::refuse({.code = "number_range",
                 .option = "--" + name,
                 .numbers = fmt::format("{} does not fit", text),
                 .rule = fmt::format("a number from {} to {}", -kLargest, kLargest),
                 .hint = "a number in that range"});
  }
  return value;
}

/// A list of numbers takes every word up to the next option; a scenario's path among them is one all the same.
std::vector<std::string> without_scenarios(const std::vector<std::string>& values,
                                           std::vector<std::string>& scenarios) {
  if (values.size() < 2) return values;
  std::vector<std::string> rest;
  for (const std::string& value : values) (value.ends_with(".ini") ? scenarios : rest).push_back(value);
  return rest;
}

std::string read_file(const std::string& path) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  if (!regular || error) {
    std::vector<std::string> known = scenario_files();
    const std::string nearest = nearest_name(path, known);
    sim::refuse({.code = "scenario_missing",
                 .option = path,
                 .numbers = "no such scenario file",
                 .rule = "scenarios are .ini files, named by their path",
                 .hint = nearest.empty() ? "shardproof list" : nearest});
  }
  std::string text(kMaxScenarioBytes + 1, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad() || !file.is_open() || text.size() > kMaxScenarioBytes) {
    sim::refuse(
        {.code = "scenario_syntax",
         .option = path,
         .numbers = text.empty() ? "cannot be read" : fmt::format("more than {} bytes", kMaxScenarioBytes),
         .rule = fmt::format("a scenario is a readable text file of at most {} bytes", kMaxScenarioBytes),
         .hint = "shardproof list"});
  }
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  std::erase(text, '\r');
  return text;
}

std::string first_comment(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  const std::size_t start = line.find_first_not_of("# ");
  if (!line.starts_with('#') || start == std::string::npos) return "";
  const std::string comment = line.substr(start);
  return comment.starts_with("Source: ") ? comment.substr(8) : comment;
}

}  // namespace

std::optional<std::int64_t> Settings::number(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  const std::int64_t value = parse_number(name, found->second.at(0));
  if (option_named(name).kind == OptionKind::size) sim::check_size("--" + name, value);
  return value;
}

std::vector<std::int64_t> Settings::numbers(const std::string& name) const {
  std::vector<std::int64_t> result;
  for (const std::string& value : texts(name)) result.push_back(parse_number(name, value));
  return result;
}

bool Settings::flag(const std::string& name) const {
  const std::string value = text(name, "false");
  if (value == "true" || value == "false") return value == "true";
  sim::refuse({.code = "not_a_flag",
               .option = "--" + name,
               .numbers = fmt::format("'{}'", value),
               .rule = "a flag is true or false",
               .hint = fmt::format("{} = true", name)});
}

std::string Settings::choice(const std::string& name) const {
  const std::vector<std::string>& choices = option_named(name).choices;
  const std::string value = text(name, choices.front());
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
  const std::string nearest = nearest_name(value, choices);
  sim::refuse({.code = "bad_choice",
               .option = "--" + name,
               .numbers = fmt::format("'{}'", value),
               .rule = fmt::format("one of {}", fmt::join(choices, ", ")),
               .hint = fmt::format("--{} {}", name, nearest.empty() ? choices.front() : nearest)});
}

void Settings::check() const {
  for (const auto& [name, values] : values_) {
    switch (option_named(name).kind) {
      case OptionKind::size:
      case OptionKind::number:
        number(name);
        break;
      case OptionKind::numbers:
        numbers(name);
        break;
      case OptionKind::flag:
        flag(name);
        break;
      case OptionKind::choice:
        choice(name);
        break;
      case OptionKind::text:
      case OptionKind::texts:
      case OptionKind::words:
        break;
    }
  }
}

std::string Settings::text(const std::string& name, const std::string& fallback) const {
  const auto found = values_.find(name);
  return found == values_.end() ? fallback : found->second.at(0);
}

std::vector<std::string> Settings::texts(const std::string& name) const {
  std::vector<std::string> result;
  const auto found = values_.find(name);
  if (found == values_.end()) return result;
  for (const std::string& value : found->second) {
    if (option_named(name).kind == OptionKind::texts) {
      result.push_back(value);
      continue;
    }
    // "2,4", "2 4" and "2, 4" are the same list; an empty piece stays, to be refused by whoever reads it.
    std::istringstream pieces(value + ",");
    for (std::string piece; std::getline(pieces, piece, ',');) {
      std::istringstream words(piece);
      const std::size_t before = result.size();
      for (std::string word; words >> word;) result.push_back(word);
      if (result.size() == before) result.emplace_back();
    }
  }
  return result;
}

Settings Settings::overridden_by(const Settings& stronger) const {
  Settings result = *this;
  for (const auto& [name, values] : stronger.values_) result.values_[name] = values;
  return result;
}

std::string Settings::as_command_line() const {
  std::string line;
  for (const auto& [name, values] : values_) {
    const OptionInfo& option = option_named(name);
    if (std::string(option.section) == "Output") continue;
    if (option.kind == OptionKind::flag) {
      line += fmt::format(" --{}{}", name, values.at(0) == "true" ? "" : "=" + values.at(0));
      continue;
    }
    if (option.kind == OptionKind::numbers) {
      line += fmt::format(" --{} {}", name, fmt::join(texts(name), ","));
      continue;
    }
    for (const std::string& value : values) line += fmt::format(" --{} {}", name, quoted_for_shell(value));
  }
  return line;
}

std::string quoted_for_shell(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789-_./,=:") == std::string::npos;
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  po::options_description known = describe_all();
  known.add_options()("positional", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("positional", -1);
  CommandLine line;
  po::parsed_options parsed(nullptr);
  try {
    namespace style = po::command_line_style;
    parsed = po::command_line_parser(arguments)
                 .options(known)
                 .positional(positional)
                 .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next)
                 .run();
  } catch (const po::unknown_option& error) {
    refuse_unknown(error.get_option_name(), "");
  } catch (const po::error& error) {
    sim::refuse({.code = "missing_value",
                 .option = "command line",
                 .numbers = error.what(),
                 .rule = "--option value or --option=value; flags take no value",
                 .hint = "shardproof --help"});
  }
  std::map<std::string, std::vector<std::string>> seen;
  for (const po::option& option : parsed.options) {
    if (option.string_key == "help") {
      line.help = true;
    } else if (option.string_key == "version") {
      line.version = true;
    } else if (option.string_key == "positional" && option.position_key < 0) {
      refuse_unknown("--positional", "");
    } else if (option.string_key != "positional") {
      add_values(line.settings, seen, option.string_key, without_scenarios(option.value, line.scenarios),
                 " on the command line");
    } else if (option.value.at(0).starts_with('-')) {
      refuse_unknown(option.value.at(0), "");  // single-dash words are no scenario names
    } else if (line.command.empty()) {
      line.command = option.value.at(0);
    } else {
      line.scenarios.push_back(option.value.at(0));
    }
  }
  return line;
}

Scenario read_scenario(const std::string& path) {
  const std::string text = read_file(path);
  Scenario scenario{path, std::filesystem::path(path).stem().string(), first_comment(text), {}};
  std::istringstream stream(text);
  std::map<std::string, std::vector<std::string>> seen;
  try {
    for (const po::option& option : po::parse_config_file(stream, describe_all(), true).options) {
      if (option.unregistered && option.string_key.find('.') != std::string::npos) {
        throw po::error(fmt::format("'{}' stands in a section", option.string_key));
      }
      if (option.unregistered) refuse_unknown(option.string_key, " in " + path);
      if (std::string_view(option_named(option.string_key).section) == "Output") {
        sim::refuse({.code = "not_in_scenario",
                     .option = option.string_key,
                     .numbers = "stands in " + path,
                     .rule = "how a result is shown is said on the command line",
                     .hint = fmt::format("--{} on the command line", option.string_key)});
      }
      add_values(scenario.settings, seen, option.string_key, option.value, " in " + path);
    }
  } catch (const po::error& error) {
    sim::refuse({.code = "scenario_syntax",
                 .option = path,
                 .numbers = error.what(),
                 .rule = "lines of the form 'name = value'; '#' begins a comment; no sections",
                 .hint = "any file in scenarios/ as a pattern"});
  }
  return scenario;
}

std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  for (const auto& entry : std::filesystem::directory_iterator(SHARDPROOF_SCENARIO_DIR, error)) {
    if (entry.path().extension() != ".ini") continue;
    const std::filesystem::path near = here.empty() ? "" : entry.path().lexically_relative(here);
    files.push_back(near.empty() || near.string().starts_with("..") ? entry.path().string() : near.string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string option_help() {
  std::ostringstream help;
  help << describe_all();
  return help.str();
}

}  // namespace verify
