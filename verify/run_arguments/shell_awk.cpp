// What `awk` prints.

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <utility>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_expression.h"
#include "verify/run_arguments/shell_line_programs.h"

namespace verify {

namespace {

/// What a rule prints, one behind the other: a field, a text, NF or NR.
struct AwkItem {
  enum class Kind { field, last_field, text, fields, lines, separator };
  Kind kind = Kind::field;
  std::int64_t field = 0;  // 0: the line
  std::string text;
};

struct AwkRule {
  bool is_of_end = false;  // END { ... }
  std::int64_t line = 0;   // NR==N; 0: each
  std::string expression;  // /expression/; "": each
  std::int64_t field = 0;  // $N=="text", whose text is `equal`; 0: each
  std::string equal;
  std::vector<AwkItem> items;  // none: the line
};

class AwkProgram {
 public:
  explicit AwkProgram(std::string_view text) : text_(text) {}

  std::optional<AwkRule> rule() {
    AwkRule rule;
    if (!takes_condition(rule)) return std::nullopt;
    if (takes("{") && (!takes("print") || !takes_items(rule) || !takes("}"))) return std::nullopt;
    skip_blanks();
    return at_ == text_.size() ? std::optional(std::move(rule)) : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool takes(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  std::optional<std::int64_t> number() {
    skip_blanks();
    std::size_t end = at_;
    while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end])) != 0) ++end;
    const auto value = whole_number(text_.substr(at_, end - at_));
    at_ = end;
    return value;
  }

  std::optional<std::string> quoted() {
    if (!takes("\"")) return std::nullopt;
    const std::size_t end = text_.find_first_of("\"\\", at_);
    if (end == std::string_view::npos || text_[end] == '\\') return std::nullopt;
    std::string text(text_.substr(at_, end - at_));
    at_ = end + 1;
    return text;
  }

  bool takes_condition(AwkRule& rule) {
    if (takes("END")) return rule.is_of_end = true;
    if (takes("NR")) {
      const auto line = takes("==") ? number() : std::nullopt;
      rule.line = line.value_or(0);
      return rule.line > 0;
    }
    if (takes("/")) {
      const std::size_t end = text_.find_first_of("/\\", at_);
      if (end == std::string_view::npos || text_[end] == '\\' || end == at_) return false;
      rule.expression = text_.substr(at_, end - at_);
      at_ = end + 1;
      return true;
    }
    if (takes("$")) {
      const auto field = number();
      const auto equal = field && takes("==") ? quoted() : std::nullopt;
      // Texts that look like numbers are compared as numbers.
      const bool is_text =
          equal && !equal->empty() && std::isalpha(static_cast<unsigned char>(equal->front()));
      rule.field = is_text ? *field : 0;
      rule.equal = is_text ? *equal : "";
      return rule.field > 0;
    }
    return true;
  }

  bool takes_items(AwkRule& rule) {
    using Kind = AwkItem::Kind;
    for (;;) {
      skip_blanks();
      if (at_ == text_.size()) return false;
      if (text_[at_] == '}') return true;
      if (takes(",")) {
        if (rule.items.empty() || rule.items.back().kind == Kind::separator) return false;
        rule.items.push_back({.kind = Kind::separator});
      } else if (takes("$NF")) {
        rule.items.push_back({.kind = Kind::last_field});
      } else if (takes("$")) {
        const auto field = number();
        if (!field) return false;
        rule.items.push_back({.kind = Kind::field, .field = *field});
      } else if (takes("NF")) {
        rule.items.push_back({.kind = Kind::fields});
      } else if (takes("NR")) {
        rule.items.push_back({.kind = Kind::lines});
      } else if (const auto text = quoted()) {
        rule.items.push_back({.kind = Kind::text, .text = *text});
      } else {
        return false;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Texts fields_of_line(const std::string& line, const Printed& separator) {
  if (!separator) return words_of_text(line, " \t");
  Texts fields;
  for (std::size_t at = 0; at <= line.size() && !line.empty();) {
    const std::size_t end = std::min(line.find(*separator, at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = end + separator->size();
  }
  return fields;
}

std::string field_of(const std::string& line, const Texts& fields, std::int64_t number) {
  if (number == 0) return line;
  return number <= std::ssize(fields) ? fields[static_cast<std::size_t>(number - 1)] : "";
}

/// Whether a rule is for a line; nothing where that is not known.
std::optional<bool> rule_is_for(const AwkRule& rule, const std::string& line, const Texts& fields,
                                std::int64_t number) {
  if (rule.line > 0) return rule.line == number;
  if (rule.field > 0) return field_of(line, fields, rule.field) == rule.equal;
  if (rule.expression.empty()) return true;
  const auto places = places_by_expression(line, rule.expression, false);
  return places ? std::optional(!places->empty()) : std::nullopt;
}

std::string printed_by(const AwkRule& rule, const std::string& line, const Texts& fields,
                       std::int64_t number) {
  if (rule.items.empty()) return line;
  std::string text;
  for (const AwkItem& item : rule.items) {
    switch (item.kind) {
      case AwkItem::Kind::field:
        text += field_of(line, fields, item.field);
        break;
      case AwkItem::Kind::last_field:
        text += field_of(line, fields, std::ssize(fields));
        break;
      case AwkItem::Kind::text:
        text += item.text;
        break;
      case AwkItem::Kind::fields:
        text += fmt::format("{}", fields.size());
        break;
      case AwkItem::Kind::lines:
        text += fmt::format("{}", number);
        break;
      case AwkItem::Kind::separator:
        text += " ";
        break;
    }
  }
  return text;
}

}  // namespace

Printed lines_by_awk(Texts words, const std::string& text) {
  const bool has_separator = !words.empty() && words.front().starts_with("-F");
  const Printed separator = has_separator ? taken_option(words, "-F") : std::nullopt;
  const bool is_plain = !has_separator || (separator && separator->size() == 1 && *separator != "\\" &&
                                           *separator != " " && *separator != "t");
  if (!is_plain || words.size() != 1) return std::nullopt;
  const auto rule = AwkProgram(words.front()).rule();
  if (!rule) return std::nullopt;
  const Texts lines = lines_of(text);
  if (rule->is_of_end) {
    const bool counts = rule->items.size() == 1 && rule->items.front().kind == AwkItem::Kind::lines;
    return counts ? Printed(fmt::format("{}\n", lines.size())) : std::nullopt;
  }
  Texts printed;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Texts fields = fields_of_line(lines[i], separator);
    const auto number = static_cast<std::int64_t>(i) + 1;
    const auto is_meant = rule_is_for(*rule, lines[i], fields, number);
    if (!is_meant) return std::nullopt;
    if (*is_meant) printed.push_back(printed_by(*rule, lines[i], fields, number));
  }
  return text_of_lines(printed);
}

}  // namespace verify
