#include "verify/run_arguments/shell_input.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

bool is_blank_of_input(char c) { return c == ' ' || c == '\t' || c == '\n'; }

}  // namespace

std::string without_blanks(std::string_view text, std::string_view signs) {
  const auto is_blank = [&](char c) {
    return is_blank_of_input(c) && signs.find(c) != std::string_view::npos;
  };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return std::string(text);
}

ReadRequest read_request(const std::vector<ShellField>& words) {
  ReadRequest asked{.names = {}, .is_followed = words.front().text == "read"};
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    if (!word->text.starts_with('-')) {
      const bool is_name = !word->text.empty() && std::ranges::all_of(word->text, is_of_shell_name);
      if (is_name) asked.names.push_back(word->text);
      asked.is_followed = asked.is_followed && is_name;
      continue;
    }
    for (const char letter : word->text.substr(1)) {
      if (letter == 'd' && word + 1 != words.end() && word->text.ends_with('d')) {
        ++word;
        asked.is_whole = word->text.empty();
        asked.is_followed = asked.is_followed && asked.is_whole;
        break;
      }
      asked.is_raw = asked.is_raw || letter == 'r';
      asked.is_array = asked.is_array || letter == 'a';
      asked.is_followed = asked.is_followed && (letter == 'r' || letter == 'a');
    }
  }
  if (asked.is_array && asked.names.size() != 1) asked.is_followed = false;
  return asked;
}

ArrayRequest array_request(const std::vector<ShellField>& words) {
  ArrayRequest asked;
  bool has_name = false;
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    if (word->text == "-t") {
      asked.keeps_end = false;
    } else if (word->text == "-d" && word + 1 != words.end() && (word + 1)->text.size() == 1) {
      asked.end = (++word)->text.front();
    } else if (word->text.size() == 3 && word->text.starts_with("-d")) {
      asked.end = word->text.back();
    } else {
      const bool is_name = !word->text.empty() && std::ranges::all_of(word->text, is_of_shell_name);
      asked.is_followed = asked.is_followed && is_name && !has_name;
      if (is_name) asked.name = word->text;
      has_name = true;
    }
  }
  return asked;
}

std::vector<std::string> elements_of_input(std::string_view text, const ArrayRequest& asked) {
  std::vector<std::string> elements;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(asked.end), text.size());
    const std::size_t behind = std::min(end + 1, text.size());
    elements.emplace_back(text.substr(0, asked.keeps_end ? behind : end));
    text.remove_prefix(behind);
  }
  return elements;
}

InputLine take_line(ReadText& input, bool is_whole) {
  const std::string_view rest = input.rest();
  const std::size_t end = is_whole ? std::string_view::npos : rest.find('\n');
  const bool is_ended = end != std::string_view::npos;
  InputLine line{std::string(rest.substr(0, end)), is_ended};
  input.taken += is_ended ? end + 1 : rest.size();
  return line;
}

std::optional<std::string> next_of_input(std::string_view& text, const std::string& signs) {
  const auto is_blank = [&](char c) { return is_blank_of_input(c) && signs.find(c) != std::string::npos; };
  const auto skip_blanks = [&] {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  };
  skip_blanks();
  if (text.empty()) return std::nullopt;
  const std::size_t end = std::min(text.find_first_of(signs), text.size());
  const std::string word(text.substr(0, end));
  text.remove_prefix(end);
  skip_blanks();
  const bool is_sign = !text.empty() && signs.find(text.front()) != std::string::npos;
  if (is_sign) text.remove_prefix(1);
  return word;
}

}  // namespace verify
