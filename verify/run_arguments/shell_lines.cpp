#include "verify/run_arguments/shell_lines.h"

#include <algorithm>

namespace verify {

bool is_plain_text(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x7f && (byte >= ' ' || c == '\n' || c == '\t');
  });
}

Texts lines_of(std::string_view text) {
  Texts lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string text_of_lines(const Texts& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string text_of_last_lines(const Texts& lines, std::string_view whole) {
  std::string text = text_of_lines(lines);
  if (!text.empty() && !whole.ends_with('\n')) text.pop_back();
  return text;
}

Texts words_of_text(std::string_view text, std::string_view blanks) {
  Texts words;
  for (std::size_t at = text.find_first_not_of(blanks); at < text.size();
       at = text.find_first_not_of(blanks, at)) {
    const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

Printed taken_option(Texts& words, std::string_view option) {
  if (words.empty() || !words.front().starts_with(option)) return std::nullopt;
  std::string value = words.front().substr(option.size());
  words.erase(words.begin());
  if (!value.empty()) return value;
  if (words.empty()) return std::nullopt;
  value = words.front();
  words.erase(words.begin());
  return value;
}

}  // namespace verify
