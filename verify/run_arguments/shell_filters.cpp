#include "verify/run_arguments/shell_filters.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <string_view>
#include <utility>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_arithmetic.h"
#include "verify/run_arguments/shell_line_programs.h"
#include "verify/run_arguments/shell_lines.h"

namespace verify {

namespace {

/// Returns the fields from `first` to `last` that cut -f names, from 1; nothing for a list that is none.
std::optional<std::vector<std::pair<std::int64_t, std::int64_t>>> ranges_of(std::string_view list) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  constexpr std::int64_t kLast = 1'000'000'000;
  constexpr std::size_t kMostRanges = 16;  // each field is compared with all
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const std::string_view one = list.substr(at, end - at);
    const std::size_t dash = one.find('-');
    const bool is_one = dash == std::string_view::npos;
    const bool is_open = !is_one && dash + 1 == one.size();
    const auto first = dash == 0 ? std::optional<std::int64_t>(1) : whole_number(one.substr(0, dash));
    const auto last = is_one ? first : is_open ? std::optional(kLast) : whole_number(one.substr(dash + 1));
    if (!first || !last || *first < 1 || *last < *first || one == "-") return std::nullopt;
    ranges.emplace_back(*first, *last);
    if (ranges.size() > kMostRanges) return std::nullopt;
    at = end + 1;
  }
  return ranges;
}

Printed cut_text(Texts words, const std::string& text) {
  Printed separator, list;
  while (!words.empty()) {
    Printed& value = words.front().starts_with("-d") ? separator : list;
    value = taken_option(words, words.front().starts_with("-d") ? "-d" : "-f");
    if (!value) return std::nullopt;
  }
  if (!list || (separator && separator->size() != 1)) return std::nullopt;
  const auto ranges = ranges_of(*list);
  if (!ranges) return std::nullopt;
  const char sign = separator ? separator->front() : '\t';
  Texts lines = lines_of(text);
  for (std::string& line : lines) {
    if (line.find(sign) == std::string::npos) continue;  // it is printed as it is
    std::string kept;
    bool is_first = true;
    std::size_t begin = 0;
    for (std::int64_t field = 1; begin <= line.size(); ++field) {
      const std::size_t end = std::min(line.find(sign, begin), line.size());
      const bool is_named = std::ranges::any_of(
          *ranges, [&](const auto& range) { return range.first <= field && field <= range.second; });
      if (is_named) kept += (is_first ? "" : std::string(1, sign)) + line.substr(begin, end - begin);
      is_first = is_first && !is_named;
      begin = end + 1;
    }
    line = std::move(kept);
  }
  return text_of_lines(lines);
}

/// Returns the signs of a set of `tr`: "a-z", "[:upper:]", "\n". Nothing for forms that are not followed.
Printed signs_of_set(std::string_view set) {
  if (set == "[:upper:]") set = "A-Z";
  if (set == "[:lower:]") set = "a-z";
  if (set == "[:digit:]") set = "0-9";
  if (set == "[:space:]") return " \t\n\r\f\v";
  std::string signs;
  for (std::size_t at = 0; at < set.size(); ++at) {
    char c = set[at];
    if (c == '[' && set.size() > 1) return std::nullopt;
    if (c == '\\') {
      static constexpr std::pair<char, char> kSigns[] = {{'n', '\n'}, {'t', '\t'}, {'\\', '\\'}};
      const char letter = ++at < set.size() ? set[at] : '\0';
      const auto* const sign = std::ranges::find(kSigns, letter, &std::pair<char, char>::first);
      if (sign == std::end(kSigns)) return std::nullopt;
      c = sign->second;
    } else if (at + 2 < set.size() && set[at + 1] == '-') {
      if (set[at + 2] < c || set[at + 2] == '\\') return std::nullopt;
      for (char next = c; next < set[at + 2]; ++next) signs += next;
      at += 2;
      c = set[at];
    }
    signs += c;
  }
  return signs;
}

Printed translated(Texts words, const std::string& text) {
  const std::string option = !words.empty() && words.front().starts_with('-') && words.size() > 1
                                 ? std::exchange(words.front(), std::string())
                                 : "";
  if (!option.empty()) words.erase(words.begin());
  const std::size_t sets = option.empty() ? 2 : 1;
  if ((!option.empty() && option != "-d" && option != "-s") || words.size() != sets) return std::nullopt;
  const Printed from = signs_of_set(words[0]);
  const Printed to = option.empty() ? signs_of_set(words[1]) : std::string();
  if (!from || !to || (option.empty() && to->empty())) return std::nullopt;
  std::map<char, std::size_t> places;  // of the last of equal signs
  for (std::size_t i = 0; i < from->size(); ++i) places[(*from)[i]] = i;
  std::string result;
  for (const char c : text) {
    const auto found = places.find(c);
    const bool is_named = found != places.end();
    if (is_named && option == "-d") continue;
    if (is_named && option == "-s" && !result.empty() && result.back() == c) continue;
    result += is_named && option.empty() ? (*to)[std::min(found->second, to->size() - 1)] : c;
  }
  return result;
}

/// `head` and `tail` with -n N or -N, and `tail -n +N`.
Printed some_lines(Texts words, const std::string& text, bool is_head) {
  std::int64_t count = 10;
  bool is_from = false;
  if (!words.empty()) {
    std::string number = words.front().starts_with("-n") ? taken_option(words, "-n").value_or("")
                                                         : taken_option(words, "-").value_or("");
    is_from = number.starts_with('+') && !is_head;
    if (is_from) number.erase(0, 1);
    const auto value = whole_number(number);
    if (!value || *value < 0 || !words.empty()) return std::nullopt;
    count = *value;
  }
  Texts lines = lines_of(text);
  const auto size = static_cast<std::int64_t>(lines.size());
  const std::int64_t begin = is_head ? 0 : is_from ? std::max<std::int64_t>(count - 1, 0) : size - count;
  const std::int64_t end = is_head ? std::min(count, size) : size;
  const auto at = [&](std::int64_t i) { return lines.begin() + std::clamp<std::int64_t>(i, 0, size); };
  const Texts some(at(begin), at(std::max(begin, end)));
  return end == size ? text_of_last_lines(some, text) : text_of_lines(some);
}

Printed counted_text(const Texts& words, const std::string& text) {
  if (words.size() != 1) return std::nullopt;
  if (words[0] == "-l") return fmt::format("{}\n", std::ranges::count(text, '\n'));
  if (words[0] == "-w") return fmt::format("{}\n", words_of_text(text, " \t\n").size());
  if (words[0] == "-c") return fmt::format("{}\n", text.size());
  return std::nullopt;
}

/// Returns the value of an expression of whole numbers that the shell, bc and Python take for the same.
Printed value_of(std::string_view expression, bool divides) {
  const std::string_view signs = divides ? "0123456789+-*/%() " : "0123456789+-*() ";
  const bool is_plain = !expression.empty() && expression.find_first_not_of(signs) == std::string_view::npos;
  if (!is_plain || expression.find("**") != std::string_view::npos) return std::nullopt;
  for (std::size_t at = 0; at + 1 < expression.size(); ++at) {
    const bool begins = at == 0 || std::isdigit(static_cast<unsigned char>(expression[at - 1])) == 0;
    const bool is_digit = std::isdigit(static_cast<unsigned char>(expression[at + 1])) != 0;
    if (begins && expression[at] == '0' && is_digit) return std::nullopt;  // base 8 of the shell
  }
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  const auto number = shell_arithmetic(expression, none);
  return number ? Printed(fmt::format("{}", *number)) : std::nullopt;
}

Printed calculated_text(const Texts& words, const std::string& text) {
  const bool has_fractions = words.size() == 1 && words[0] == "-l";
  if (!words.empty() && !has_fractions) return std::nullopt;
  std::string result;
  for (const std::string& line : lines_of(text)) {
    const Printed value = value_of(line, !has_fractions);
    if (!value) return std::nullopt;
    result += *value + "\n";
  }
  return result;
}

Printed identity(const Texts& words, const std::string& text) {
  return words.empty() ? Printed(text) : std::nullopt;
}

Printed joined_by_xargs(const Texts& words, const std::string& text) {
  const bool echoes = words.empty() || (words.size() == 1 && words[0] == "echo");
  if (!echoes || text.find_first_of("'\"\\") != std::string::npos) return std::nullopt;
  std::string result;
  for (const std::string& word : words_of_text(text, " \t\n")) result += (result.empty() ? "" : " ") + word;
  return result + "\n";
}

Texts with_option(const char* option, Texts words) {
  words.insert(words.begin(), option);
  return words;
}

using Filter = Printed (*)(Texts, const std::string&);
struct FilterRow {
  std::string_view name;
  Filter filter;
};
constexpr FilterRow kFilters[] = {
    {"cat", [](Texts words, const std::string& text) { return identity(words, text); }},
    {"cut", [](Texts words, const std::string& text) { return cut_text(std::move(words), text); }},
    {"tr", [](Texts words, const std::string& text) { return translated(std::move(words), text); }},
    {"head", [](Texts words, const std::string& text) { return some_lines(std::move(words), text, true); }},
    {"tail", [](Texts words, const std::string& text) { return some_lines(std::move(words), text, false); }},
    {"wc", [](Texts words, const std::string& text) { return counted_text(words, text); }},
    {"bc", [](Texts words, const std::string& text) { return calculated_text(words, text); }},
    {"grep", [](Texts words, const std::string& text) { return lines_by_grep(std::move(words), text); }},
    {"egrep",
     [](Texts words, const std::string& text) { return lines_by_grep(with_option("-E", words), text); }},
    {"awk", [](Texts words, const std::string& text) { return lines_by_awk(std::move(words), text); }},
    {"sed", [](Texts words, const std::string& text) { return lines_by_sed(std::move(words), text); }},
    {"xargs", [](Texts words, const std::string& text) { return joined_by_xargs(words, text); }},
};

/// Returns the words behind the name of a command; nothing where one is not known, or there is no command.
std::optional<Texts> known_texts(const std::vector<ShellField>& words) {
  if (words.empty()) return std::nullopt;
  Texts texts;
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    if (!is_plain_text(word->text) || word->may_be_many) return std::nullopt;
    texts.push_back(word->text);
  }
  return texts;
}

/// Returns a path without its last name, as `dirname` prints it.
std::string folder_of(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  path.resize(slash + 1);
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string last_name_of(std::string path, const std::string& suffix) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path != "/") path = path.substr(path.rfind('/') + 1);
  if (path != suffix && path.ends_with(suffix)) path.resize(path.size() - suffix.size());
  return path;
}

/// Returns what python -c 'print(4*8)' prints, and what awk 'BEGIN{print 4*8}' does.
Printed printed_expression(std::string_view program, std::string_view begins, char ends) {
  if (!program.starts_with(begins) || !program.ends_with(ends)) return std::nullopt;
  program.remove_prefix(begins.size());
  program.remove_suffix(1);
  const Printed value = value_of(program, false);
  return value ? Printed(*value + "\n") : std::nullopt;
}

}  // namespace

Printed printed_without_input(const std::vector<ShellField>& words) {
  const std::optional<Texts> texts = known_texts(words);
  if (!texts || texts->empty() || (texts->front().empty() || texts->front().starts_with("--")))
    return std::nullopt;
  const std::string& name = words.front().text;
  const bool is_python = name == "python" || name == "python3";
  if (is_python && texts->size() == 2 && texts->front() == "-c")
    return printed_expression((*texts)[1], "print(", ')');
  if (name == "awk" && texts->size() == 1) {
    const Printed spaced = printed_expression(texts->front(), "BEGIN {print ", '}');
    return spaced ? spaced : printed_expression(texts->front(), "BEGIN{print ", '}');
  }
  if (texts->front().starts_with('-')) return std::nullopt;
  if (name == "basename" && texts->size() <= 2)
    return last_name_of(texts->front(), texts->size() == 2 ? texts->back() : "") + "\n";
  if (name == "dirname" && texts->size() == 1) return folder_of(texts->front()) + "\n";
  return std::nullopt;
}

std::optional<bool> found_by_grep(const std::vector<ShellField>& words, const std::string& text) {
  const bool is_grep = !words.empty() && (words.front().text == "grep" || words.front().text == "egrep");
  const std::optional<Texts> texts = known_texts(words);
  if (!is_grep || !texts || !is_plain_text(text) || text.size() > kMostFilteredBytes) return std::nullopt;
  return finds_by_grep(words.front().text == "egrep" ? with_option("-E", *texts) : *texts, text);
}

Printed filtered(const std::vector<ShellField>& words, const std::string& text) {
  if (words.empty() || !is_plain_text(text) || text.size() > kMostFilteredBytes) return std::nullopt;
  const auto* const row = std::ranges::find(kFilters, words.front().text, &FilterRow::name);
  const std::optional<Texts> texts = known_texts(words);
  return row == std::end(kFilters) || !texts ? std::nullopt : row->filter(*texts, text);
}

}  // namespace verify
