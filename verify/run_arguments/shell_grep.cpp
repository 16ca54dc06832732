// What `grep` finds.

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <utility>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_expression.h"
#include "verify/run_arguments/shell_line_programs.h"

namespace verify {

namespace {

struct GrepRequest {
  bool is_extended = false;
  bool is_fixed = false;
  bool is_of_perl = false;
  bool ignores_case = false;
  bool inverts = false;
  bool prints_parts = false;
  bool counts = false;
  bool numbers = false;
  bool is_quiet = false;
  std::int64_t most = -1;  // lines; -1: all
  std::string expression;
};

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return text;
}

/// Whether an expression has a letter behind a backslash, or a class: they mean something else in the other
/// case.
bool differs_by_case(std::string_view expression) {
  for (std::size_t at = 0; at + 1 < expression.size(); ++at) {
    if (expression.substr(at, 2) == "[:") return true;
    if (expression[at] != '\\') continue;
    ++at;
    if (std::isalpha(static_cast<unsigned char>(expression[at])) != 0) return true;
  }
  return false;
}

/// Returns an expression of Perl as an extended one; nothing where it has what only Perl knows.
std::optional<std::string> expression_of_perl(std::string_view text) {
  for (const std::string_view sign : {"(?", "*?", "+?", "??", "\\K", "|", "++", "*+"})
    if (text.find(sign) != std::string_view::npos) return std::nullopt;
  std::string extended;
  bool is_in_set = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_digit = text[at] == '\\' && at + 1 < text.size() && text[at + 1] == 'd';
    const bool is_escape = text[at] == '\\' && !is_digit;
    if (is_escape && is_in_set) return std::nullopt;
    if (is_escape && has_other_escapes(text.substr(at, 2))) return std::nullopt;
    if (text[at] == '[') is_in_set = true;
    if (text[at] == ']') is_in_set = false;
    if (is_digit) extended += is_in_set ? "0-9" : "[0-9]";
    if (!is_digit) extended += text[at];
    if (is_digit || is_escape) ++at;
    if (is_escape && at < text.size()) extended += text[at];
  }
  return extended;
}

/// Returns a text as an expression that finds it.
std::string expression_of_text(std::string_view text) {
  std::string expression;
  for (const char c : text) {
    if (std::string_view("\\.*[]^$+?(){}|").find(c) != std::string_view::npos) expression += '\\';
    expression += c;
  }
  return expression;
}

/// Follows the letters of an option. Returns whether all of them are known.
bool takes_letters(std::string_view letters, GrepRequest& request) {
  for (const char letter : letters) {
    static constexpr std::pair<char, bool GrepRequest::*> kLetters[] = {
        {'E', &GrepRequest::is_extended},  {'F', &GrepRequest::is_fixed}, {'P', &GrepRequest::is_of_perl},
        {'i', &GrepRequest::ignores_case}, {'v', &GrepRequest::inverts},  {'o', &GrepRequest::prints_parts},
        {'c', &GrepRequest::counts},       {'n', &GrepRequest::numbers},  {'q', &GrepRequest::is_quiet}};
    const auto* const row = std::ranges::find(kLetters, letter, &std::pair<char, bool GrepRequest::*>::first);
    if (row == std::end(kLetters)) return false;
    request.*(row->second) = true;
  }
  return true;
}

std::optional<GrepRequest> grep_request(Texts words) {
  GrepRequest request;
  bool has_expression = false;
  while (!words.empty()) {
    if (words.front().starts_with("-m")) {
      const auto most = whole_number(taken_option(words, "-m").value_or(""));
      if (!most || *most < 1) return std::nullopt;
      request.most = *most;
      continue;
    }
    std::string word = words.front();
    words.erase(words.begin());
    const bool is_option = word.size() > 1 && word[0] == '-' && word != "--";
    if (word == "--") continue;
    if (word == "-e") {
      if (words.empty() || has_expression) return std::nullopt;
      word = words.front();
      words.erase(words.begin());
    } else if (is_option) {
      if (!takes_letters(std::string_view(word).substr(1), request)) return std::nullopt;
      continue;
    }
    if (has_expression) return std::nullopt;  // a file
    has_expression = true;
    request.expression = std::move(word);
  }
  const int kinds = (request.is_extended ? 1 : 0) + (request.is_fixed ? 1 : 0) + (request.is_of_perl ? 1 : 0);
  const bool is_followed = has_expression && !request.expression.empty() && kinds <= 1 &&
                           request.expression.find('\n') == std::string::npos &&
                           !(request.prints_parts && request.inverts);
  if (!is_followed) return std::nullopt;
  if (request.ignores_case) {
    if (!request.is_fixed && differs_by_case(request.expression)) return std::nullopt;
    request.expression = in_lower_case(request.expression);
  }
  if (request.is_fixed) {
    request.expression = expression_of_text(request.expression);
  } else if (request.is_of_perl) {
    const auto expression = expression_of_perl(request.expression);
    if (!expression) return std::nullopt;
    request.expression = *expression;
  } else if (!request.is_extended) {
    request.expression = extended_expression(request.expression);
  }
  return request;
}

/// Returns the parts of a line that fit; nothing where that is not known, or a part is empty.
std::optional<Texts> parts_of_line(const std::string& line, const GrepRequest& request) {
  const std::string searched = request.ignores_case ? in_lower_case(line) : line;
  Texts parts;
  for (std::size_t at = 0; at <= searched.size();) {
    const auto places =
        places_by_expression(std::string_view(searched).substr(at), request.expression, at > 0);
    if (!places) return std::nullopt;
    if (places->empty()) return parts;
    const FoundPlace& place = places->front();
    parts.push_back(line.substr(at + place.begin, place.length));
    if (!request.prints_parts) return parts;
    if (place.length == 0) return std::nullopt;
    at += place.begin + place.length;
  }
  return parts;
}

}  // namespace

Printed lines_by_grep(Texts words, const std::string& text) {
  const auto request = grep_request(std::move(words));
  if (!request) return std::nullopt;
  Texts printed;
  std::int64_t found = 0, number = 0;
  for (const std::string& line : lines_of(text)) {
    ++number;
    const auto parts = parts_of_line(line, *request);
    if (!parts) return std::nullopt;
    if (parts->empty() != request->inverts) continue;
    ++found;
    const std::string before = request->numbers ? fmt::format("{}:", number) : "";
    if (!request->prints_parts) printed.push_back(before + line);
    if (request->prints_parts)
      for (const std::string& part : *parts) printed.push_back(before + part);
    if (found == request->most) break;
  }
  if (found == 0) return std::nullopt;
  if (request->is_quiet) return "";
  return request->counts ? fmt::format("{}\n", found) : text_of_lines(printed);
}

std::optional<bool> finds_by_grep(Texts words, const std::string& text) {
  const auto request = grep_request(std::move(words));
  if (!request) return std::nullopt;
  for (const std::string& line : lines_of(text)) {
    const auto parts = parts_of_line(line, *request);
    if (!parts) return std::nullopt;
    if (parts->empty() == request->inverts) return true;
  }
  return false;
}

}  // namespace verify
