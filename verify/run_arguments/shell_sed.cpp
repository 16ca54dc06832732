// What `sed` prints.

#include <algorithm>
#include <cctype>
#include <utility>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_expression.h"
#include "verify/run_arguments/shell_line_programs.h"

namespace verify {

namespace {

/// A command of a program, and the lines that it is for.
struct SedCommand {
  std::int64_t first = 0;  // the number of a line; 0: each
  std::int64_t last = 0;
  bool is_of_last = false;  // of the last line alone
  std::string expression;   // of the lines that fit it; "": each
  char name = 's';          // s, p or d
  std::string wanted;       // of s: an extended expression
  std::string replacement;
  bool is_global = false;
  bool prints = false;
};

/// Reads a program from its beginning on.
class SedProgram {
 public:
  SedProgram(std::string_view text, bool is_extended) : text_(text), is_extended_(is_extended) {}

  std::optional<std::vector<SedCommand>> commands() {
    std::vector<SedCommand> all;
    for (;;) {
      while (at_ < text_.size() && (text_[at_] == ';' || text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
      if (at_ == text_.size()) return all;
      SedCommand command;
      if (!takes_address(command) || !takes_function(command)) return std::nullopt;
      all.push_back(std::move(command));
      const bool ends = at_ == text_.size() || text_[at_] == ';' || text_[at_] == ' ' || text_[at_] == '\n';
      if (!ends) return std::nullopt;
    }
  }

 private:
  std::optional<std::int64_t> number() {
    std::size_t end = at_;
    while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end])) != 0) ++end;
    const auto value = whole_number(text_.substr(at_, end - at_));
    at_ = end;
    return value && *value > 0 ? value : std::nullopt;
  }

  bool takes_address(SedCommand& command) {
    const char c = text_[at_];
    if (c == '$') {
      ++at_;
      command.is_of_last = true;
    } else if (c == '/') {
      ++at_;
      const auto expression = up_to('/');
      if (!expression || expression->empty() || has_other_escapes(*expression)) return false;
      command.expression = is_extended_ ? *expression : extended_expression(*expression);
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      const auto first = number();
      if (!first) return false;
      command.first = command.last = *first;
      if (at_ == text_.size() || text_[at_] != ',') return true;
      ++at_;
      const auto last = number();
      if (!last || *last < *first) return false;
      command.last = *last;
    }
    return true;
  }

  bool takes_function(SedCommand& command) {
    if (at_ == text_.size()) return false;
    command.name = text_[at_++];
    if (command.name == 'p' || command.name == 'd') return true;
    if (command.name != 's' || at_ == text_.size()) return false;
    const char sign = text_[at_++];
    if (std::isalnum(static_cast<unsigned char>(sign)) != 0 || sign == '\\' || sign == '\n') return false;
    const auto wanted = up_to(sign);
    const auto replacement = wanted ? up_to(sign) : std::nullopt;
    if (!replacement || wanted->empty() || has_other_escapes(*wanted)) return false;
    command.wanted = is_extended_ ? *wanted : extended_expression(*wanted);
    command.replacement = *replacement;
    while (at_ < text_.size() && (text_[at_] == 'g' || text_[at_] == 'p')) {
      if (text_[at_] == 'g') command.is_global = true;
      if (text_[at_] == 'p') command.prints = true;
      ++at_;
    }
    return true;
  }

  /// Returns the text up to a sign, before which a backslash makes it one of the text.
  std::optional<std::string> up_to(char sign) {
    std::string part;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == sign) {
        ++at_;
        return part;
      }
      if (c == '\n') return std::nullopt;
      const bool is_escape = c == '\\' && at_ + 1 < text_.size();
      if (is_escape && text_[at_ + 1] == sign) {
        // A sign that an expression reads otherwise is not followed.
        if (std::string_view(".*[]^$+?(){}|&").find(sign) != std::string_view::npos) return std::nullopt;
        part += text_[++at_];
      } else {
        part += c;
        if (is_escape) part += text_[++at_];
      }
    }
    return std::nullopt;
  }

  std::string_view text_;
  bool is_extended_;
  std::size_t at_ = 0;
};

/// Returns what stands in the place of a part that was found; nothing for signs that are not followed.
std::optional<std::string> replaced_part(const SedCommand& command, const std::string& line,
                                         std::size_t begin, const std::vector<FoundPlace>& places) {
  std::string text;
  const auto append = [&](std::size_t index) {
    if (index >= places.size()) return false;
    const FoundPlace& place = places[index];
    if (place.begin != std::string::npos) text += line.substr(begin + place.begin, place.length);
    return true;
  };
  for (std::size_t at = 0; at < command.replacement.size(); ++at) {
    const char c = command.replacement[at];
    if (c == '&') {
      append(0);
    } else if (c != '\\') {
      text += c;
    } else {
      if (++at == command.replacement.size()) return std::nullopt;
      const char behind = command.replacement[at];
      const bool is_digit = std::isdigit(static_cast<unsigned char>(behind)) != 0;
      if (is_digit && !append(static_cast<std::size_t>(behind - '0'))) return std::nullopt;
      if (!is_digit && std::isalpha(static_cast<unsigned char>(behind)) != 0) return std::nullopt;
      if (!is_digit) text += behind;
    }
  }
  return text;
}

/// Follows s. Returns whether a part was replaced; nothing where that is not known.
std::optional<bool> substitutes(const SedCommand& command, std::string& line) {
  std::string changed;
  std::size_t kept = 0;
  bool has_found = false;
  while (kept <= line.size()) {
    const auto places = places_by_expression(std::string_view(line).substr(kept), command.wanted, kept > 0);
    if (!places) return std::nullopt;
    if (places->empty()) break;
    const FoundPlace& whole = places->front();
    if (whole.length == 0 && command.is_global) return std::nullopt;
    const auto text = replaced_part(command, line, kept, *places);
    if (!text) return std::nullopt;
    changed += line.substr(kept, whole.begin) + *text;
    kept += whole.begin + whole.length;
    has_found = true;
    if (changed.size() > kMostFilteredBytes) return std::nullopt;
    if (!command.is_global) break;
  }
  if (has_found) line = changed + line.substr(std::min(kept, line.size()));
  return has_found;
}

/// Whether a command is for a line; nothing where that is not known.
std::optional<bool> command_is_for(const SedCommand& command, const std::string& line, std::int64_t number,
                                   std::int64_t lines) {
  if (command.is_of_last) return number == lines;
  if (command.first > 0) return command.first <= number && number <= command.last;
  if (command.expression.empty()) return true;
  const auto places = places_by_expression(line, command.expression, false);
  return places ? std::optional(!places->empty()) : std::nullopt;
}

}  // namespace

Printed lines_by_sed(Texts words, const std::string& text) {
  bool is_silent = false, is_extended = false;
  while (words.size() > 1 && words.front().starts_with('-')) {
    const std::string option = words.front();
    words.erase(words.begin());
    if (option == "-e") break;
    if (option.size() < 2 || option.find_first_not_of("nrE", 1) != std::string::npos) return std::nullopt;
    is_silent = is_silent || option.find('n') != std::string::npos;
    is_extended = is_extended || option.find_first_of("rE") != std::string::npos;
  }
  if (words.size() != 1) return std::nullopt;
  const auto commands = SedProgram(words.front(), is_extended).commands();
  if (!commands || commands->empty()) return std::nullopt;
  const Texts lines = lines_of(text);
  Texts printed;
  std::size_t bytes = 0;
  bool ends_with_last = false;  // what is printed ends with the last line
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t before = printed.size();
    std::string line = lines[i];
    bool is_deleted = false;
    for (const SedCommand& command : *commands) {
      const auto is_meant = command_is_for(command, line, static_cast<std::int64_t>(i) + 1,
                                           static_cast<std::int64_t>(lines.size()));
      if (!is_meant) return std::nullopt;
      if (!*is_meant) continue;
      is_deleted = command.name == 'd';
      if (is_deleted) break;
      const auto has_found = command.name == 's' ? substitutes(command, line) : std::optional(true);
      if (!has_found) return std::nullopt;
      if (*has_found && (command.name == 'p' || command.prints)) printed.push_back(line);
    }
    if (!is_silent && !is_deleted) printed.push_back(line);
    ends_with_last = i + 1 == lines.size() && printed.size() > before;
    bytes += printed.empty() ? 0 : printed.back().size();
    if (bytes > kMostFilteredBytes) return std::nullopt;
  }
  return ends_with_last ? text_of_last_lines(printed, text) : text_of_lines(printed);
}

}  // namespace verify
