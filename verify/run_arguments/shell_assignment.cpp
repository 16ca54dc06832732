#include "verify/run_arguments/shell_assignment.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "verify/run_arguments/shell_arithmetic.h"
#include "verify/run_arguments/shell_input.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

/// Returns an assignment of ((...)) and `let` with a plain sign: "I = I + (2)" of I+=2, "I = I + 1" of I++.
std::string with_plain_sign(std::string_view text) {
  std::string whole = without_blanks(text);
  for (const std::string_view step : {"++", "--"}) {
    std::string name = whole;
    if (name.ends_with(step)) name = without_blanks(std::string_view(name).substr(0, name.size() - 2));
    if (name.starts_with(step)) name = without_blanks(std::string_view(name).substr(2));
    const bool is_name = !name.empty() && name != whole && begins_shell_name(name.front()) &&
                         std::ranges::all_of(name, is_of_shell_name);
    if (is_name) return fmt::format("{} = {} {} 1", name, name, step[0]);
  }
  std::size_t length = 0;
  while (length < whole.size() && is_of_shell_name(whole[length])) ++length;
  const std::string name = whole.substr(0, length);
  const std::string behind = without_blanks(std::string_view(whole).substr(length));
  for (const std::string_view sign : {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"}) {
    const bool is_there = behind.starts_with(sign) && behind.substr(sign.size()).starts_with('=');
    if (is_there && !name.empty())
      return fmt::format("{} = {} {} ({})", name, name, sign, behind.substr(sign.size() + 1));
  }
  return whole;
}

}  // namespace

std::vector<std::string> names_assigned_in(const ShellCommand& command) {
  if (command.words.size() != 2 || command.words[0].parts.empty()) return {};
  const std::vector<ShellPart>& parts = command.words[1].parts;
  const bool is_arithmetic = parts.size() == 1 && parts[0].kind == ShellPart::Kind::arithmetic &&
                             command.words[0].parts.front().text == "((";
  return is_arithmetic ? names_assigned_by(parts[0].text) : std::vector<std::string>();
}

std::vector<std::string> parted_expressions(std::string_view expression) {
  std::vector<std::string> parts(1);
  int open = 0;
  for (const char c : expression) {
    if (c == '(' || c == '[') ++open;
    if (c == ')' || c == ']') --open;
    if (c == ',' && open == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<ArithmeticAssignment> arithmetic_assignment(std::string_view written, int line) {
  const std::string text = with_plain_sign(written);
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || text.find('=', equals + 1) != std::string::npos) return std::nullopt;
  const std::string name = without_blanks(std::string_view(text).substr(0, equals));
  const std::string_view value = std::string_view(text).substr(equals + 1);
  const bool has_quotes = value.find_first_of("'\"\\`") != std::string_view::npos;
  const bool is_plain = !has_quotes && !name.empty() && begins_shell_name(name.front()) &&
                        std::ranges::all_of(name, is_of_shell_name) &&
                        value.find(',') == std::string_view::npos && names_assigned_by(value).empty();
  if (!is_plain) return std::nullopt;
  ShellWord word = ShellWordReader(fmt::format("$(({}))", value), line, 0).whole_word(true);
  const bool has_plain_sign = with_plain_sign(written) == without_blanks(written);
  if (!has_plain_sign && word.parts.size() == 1) word.parts.front().source = fmt::format("(({}))", written);
  const std::string whole = without_blanks(written);
  return ArithmeticAssignment{.assignment = {.name = name, .values = {std::move(word)}, .line = line},
                              .behind = whole.ends_with("++")   ? -1
                                        : whole.ends_with("--") ? 1
                                                                : 0};
}

}  // namespace verify
