#include "verify/output/wrapped_text.h"

#include <algorithm>
#include <vector>

namespace verify {

namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/// Returns an option with its value as one word each.
std::vector<std::string_view> arguments_of(std::string_view command) {
  std::vector<std::string_view> arguments;
  for (std::size_t begin = 0; begin < command.size();) {
    const std::size_t end = std::min(command.find(" --", begin), command.size());
    arguments.push_back(command.substr(begin, end - begin));
    begin = end + 1;
  }
  return arguments;
}

/// Returns the words as lines of at most `columns`.
std::vector<std::string> lines_of(const std::vector<std::string_view>& words, std::size_t columns) {
  std::vector<std::string> lines;
  for (const std::string_view word : words) {
    if (lines.empty() || lines.back().size() + 1 + word.size() > columns) {
      lines.emplace_back(word);
    } else {
      lines.back().append(" ").append(word);
    }
  }
  return lines;
}

std::size_t room(std::size_t columns, std::size_t taken) { return columns > taken ? columns - taken : 1; }

}  // namespace

std::string wrapped(std::string_view first, std::size_t indent, std::string_view text, std::size_t columns) {
  return wrapped_words(first, indent, words_of(text), columns);
}

std::string wrapped_words(std::string_view first, std::size_t indent,
                          const std::vector<std::string_view>& words, std::size_t columns) {
  const std::string blanks(indent, ' ');
  std::string all(first);
  bool is_first = !first.empty();
  if (is_first && first.size() + 2 > indent) {
    all += "\n";
    is_first = false;
  }
  for (const std::string& line : lines_of(words, room(columns, indent))) {
    all += is_first ? std::string(indent - first.size(), ' ') : blanks;
    all += line + "\n";
    is_first = false;
  }
  return is_first ? all + "\n" : all;
}

std::string wrapped_command(std::size_t indent, std::string_view command, std::size_t columns) {
  std::string all;
  std::size_t own_indent = indent;
  for (const std::string& line : lines_of(arguments_of(command), room(columns, indent + 4))) {
    if (!all.empty()) all += " \\\n";
    all += std::string(own_indent, ' ') + line;
    own_indent = indent + 2;
  }
  return all + "\n";
}

}  // namespace verify
