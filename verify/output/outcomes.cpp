#include "verify/output/outcomes.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <string_view>

#include "verify/output/markup.h"

namespace verify {

namespace {

std::string time_attribute(const std::optional<double>& seconds) {
  return seconds ? fmt::format(" time=\"{:.3f}\"", *seconds) : "";
}

std::string counts(const std::vector<Outcome>& outcomes) {
  const auto failures = std::ranges::count(outcomes, "failure", &Outcome::problem);
  const auto errors = std::ranges::count(outcomes, "error", &Outcome::problem);
  const auto skipped = std::ranges::count(outcomes, "skipped", &Outcome::problem);
  return fmt::format(" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"", outcomes.size(), failures,
                     errors, skipped);
}

std::string cases_xml(const OutcomeSuite& suite) {
  std::string xml;
  std::map<std::string, int> occurrences;
  for (const Outcome& one : suite.outcomes) {
    const int occurrence = ++occurrences[one.name];
    xml += fmt::format("    <testcase classname=\"{}\" name=\"{}{}\"{}", markup_text(suite.name),
                       markup_text(one.name), occurrence == 1 ? "" : fmt::format(" ({})", occurrence),
                       time_attribute(one.seconds));
    xml += one.problem.empty()
               ? "/>\n"
               : fmt::format(">\n      <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n    </testcase>\n",
                             one.problem, markup_text(one.type), markup_text(one.message),
                             markup_text(one.text));
  }
  return xml;
}

/// Escapes what would end the command or, in a property, the property.
std::string escaped(std::string_view text, bool is_property) {
  std::string out;
  for (const char c : text) {
    const bool is_escaped = c == '%' || c == '\r' || c == '\n' || (is_property && (c == ':' || c == ','));
    out += is_escaped ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out;
}

std::string annotation(const OutcomeSuite& suite, const Outcome& outcome, const char* level) {
  std::string file = outcome.file;
  std::int64_t line = outcome.line;
  if (file.empty() && !suite.file.empty()) {
    file = suite.file;
    line = std::max<std::int64_t>(1, line_of_option(file, outcome.option));
  }
  std::string place;
  if (!file.empty()) place = fmt::format("file={},line={},", escaped(file, true), line);
  return fmt::format("::{} {}title={}::{}\n", level, place,
                     escaped(fmt::format("{}: {}", suite.name, outcome.name), true),
                     escaped(outcome.text.empty() ? outcome.message : outcome.text, false));
}

bool is_of_a_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

/// Whether a line gives the option `name`, which has '-' between its words.
bool gives(std::string line, const std::string& name) {
  const std::size_t first = line.find_first_not_of(" \t");
  if (first == std::string::npos || line[first] == '#') return false;
  std::ranges::replace(line, '_', '-');
  for (std::size_t at = line.find(name); at != std::string::npos; at = line.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool has_dashes = at >= 2 && line[at - 1] == '-' && line[at - 2] == '-';
    const bool begins = at == 0 || has_dashes || !is_of_a_word(line[at - 1]);
    if (begins && (end == line.size() || !is_of_a_word(line[end]))) return true;
  }
  return false;
}

}  // namespace

Outcome outcome_of(const sim::Refusal& refusal, const std::string& reproduce) {
  const std::string message = refusal.option + ": " + refusal.numbers;
  return {.name = "refusal " + refusal.code,
          .problem = "error",
          .type = refusal.code,
          .message = message,
          .text = message + "\nrule: " + refusal.rule + "\ntry: " + refusal.hint + reproduce,
          .option = refusal.option};
}

std::string junit_text(const std::string& name, const std::vector<OutcomeSuite>& suites) {
  std::vector<Outcome> all;
  std::string texts;
  for (const OutcomeSuite& suite : suites) {
    all.insert(all.end(), suite.outcomes.begin(), suite.outcomes.end());
    texts += fmt::format(
        "  <testsuite name=\"{}\"{}{}>\n{}{}  </testsuite>\n", markup_text(suite.name),
        counts(suite.outcomes), time_attribute(suite.seconds), cases_xml(suite),
        suite.said.empty() ? "" : fmt::format("    <system-out>{}</system-out>\n", markup_text(suite.said)));
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\"{}>\n{}</testsuites>\n",
      markup_text(name), counts(all), texts);
}

std::string annotations_text(const std::vector<OutcomeSuite>& suites) {
  std::string text;
  for (const OutcomeSuite& suite : suites) {
    for (const Outcome& one : suite.outcomes)
      if (!one.problem.empty())
        text += annotation(suite, one, one.problem == "skipped" ? "warning" : "error");
    for (const Outcome& one : suite.warnings) text += annotation(suite, one, "warning");
  }
  return text;
}

std::int64_t line_of_option(const std::string& path, const std::string& option) {
  std::error_code ignored;
  if (!option.starts_with("--") || !std::filesystem::is_regular_file(path, ignored)) return 0;
  const auto end = std::ranges::find_if_not(option.begin() + 2, option.end(), is_of_a_word);
  const std::string name(option.begin() + 2, end);
  std::ifstream file(path);
  std::int64_t found = 0, number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (gives(line, name)) found = number;
  }
  return found;
}

}  // namespace verify
