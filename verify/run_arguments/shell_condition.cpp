#include "verify/run_arguments/shell_condition.h"

#include <algorithm>
#include <fnmatch.h>
#include <utility>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

constexpr int kMostBrackets = 32;

/// A word of a test.
struct Operand {
  std::string text;
  bool is_known = true;
  bool may_be_many = false;
  std::string bare;      // the text, where nothing of it is quoted or expanded
  std::string asked;     // would tell what is not known
  std::string variable;  // has no value from outside where the word is empty, as far as the file says
  std::string pattern;
};

/// Returns the variable of which a word is empty just where nothing gives it a value: $X, ${X:-}, ${X+x}.
std::string variable_of(const ShellWord& word, ShellValues& values) {
  if (word.parts.size() != 1 || word.parts[0].kind != ShellPart::Kind::parameter) return "";
  const ShellPart& part = word.parts[0];
  const bool is_plain =
      part.change.empty() || part.change == "+" || (part.change == "-" && part.word->parts.empty());
  if (!is_plain || part.elements != '\0' || !is_of_shell_name(part.text[0])) return "";
  values.open(part.text);
  return values.find(part.text) == nullptr ? part.text : "";
}

std::vector<Operand> operands_of(const std::vector<ShellWord>& words, bool is_double, ShellValues& values) {
  std::vector<Operand> operands;
  for (const ShellWord& word : words) {
    const bool is_bare = std::ranges::all_of(word.parts, [](const ShellPart& part) {
      return part.kind == ShellPart::Kind::literal && !part.is_quoted;
    });
    const ShellFields fields = is_double ? ShellFields{values.whole(word)} : values.expand({word});
    for (const ShellField& field : fields) {
      operands.push_back({.text = field.text,
                          .is_known = !field.has_unknown(),
                          .may_be_many = field.may_be_many && field.has_unknown(),
                          .bare = is_bare ? field.text : "",
                          .asked = values.variable_of({field}),
                          .variable = variable_of(word, values),
                          .pattern = is_double ? values.pattern(word) : ""});
    }
  }
  return operands;
}

class Test {
 public:
  Test(std::vector<Operand> operands, bool is_double, ShellValues& values)
      : operands_(std::move(operands)), is_double_(is_double), values_(values) {}

  ShellStatus status() {
    // [ a = b ] and [ ! a ] have a meaning by the number of their words, whatever the words are.
    if (!is_double_ && operands_.size() < 4 && !at("!")) return simple(0, operands_.size());
    const ShellStatus status = any(0);
    return at_ == operands_.size() ? status : ShellStatus();
  }

 private:
  bool at(std::string_view word) const { return at_ < operands_.size() && operands_[at_].bare == word; }
  bool takes(std::string_view word) {
    const bool is_there = at(word);
    at_ += is_there ? 1 : 0;
    return is_there;
  }

  ShellStatus any(int depth) {
    ShellStatus status = all(depth);
    while (takes(is_double_ ? "||" : "-o")) status = either(status, all(depth));
    return status;
  }
  ShellStatus all(int depth) {
    ShellStatus status = one(depth);
    while (takes(is_double_ ? "&&" : "-a")) status = both(status, one(depth));
    return status;
  }
  ShellStatus one(int depth) {
    if (at_ >= operands_.size() || depth == kMostBrackets) {
      at_ = operands_.size() + 1;
      return {};
    }
    if (takes("!")) return opposite(one(depth + 1));
    if (is_double_ && takes("(")) {
      const ShellStatus status = any(depth + 1);
      return takes(")") ? status : ShellStatus();
    }
    const std::size_t begin = at_++;
    const auto ends = [&] { return is_double_ ? at("&&") || at("||") || at(")") : at("-a") || at("-o"); };
    while (at_ < operands_.size() && !ends()) ++at_;
    return simple(begin, at_);
  }

  /// WORD, -z WORD or WORD = WORD. Two other words are an error in [ ... ], which does not succeed.
  ShellStatus simple(std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    if (count == 0) return {.success = false};
    const Operand& first = operands_[begin];
    if (count == 1) return opposite(is_empty(first));
    const Operand& second = operands_[begin + 1];
    if (count == 3) return compared(first, is_double_ ? second.bare : second.text, operands_[begin + 2]);
    if (count > 3 || (first.bare == "-v" && !second.is_known)) return {.asked = first.asked};
    if (first.bare == "-z") return is_empty(second);
    if (first.bare == "-n") return opposite(is_empty(second, second.may_be_many));
    if (first.bare == "-v") return is_assigned(second);
    const bool may_be_operator = is_double_ || !first.is_known || first.text.starts_with('-');
    ShellStatus status{.asked = second.asked};
    if (!may_be_operator) status.success = false;
    return status;
  }

  /// Whether a word is empty. One that may be no word at all is not empty in [ -n $X ].
  static ShellStatus is_empty(const Operand& word, bool may_be_none = false) {
    ShellStatus status{.asked = word.asked};
    if (word.is_known) status.success = word.text.empty();
    if (!word.variable.empty() && !may_be_none && status.success != false)
      status.empty_if_true = {word.variable};
    return status;
  }

  ShellStatus is_assigned(const Operand& name) {
    const auto value = values_.find(name.text);
    if (value == nullptr) return {.asked = name.text, .empty_if_false = {name.text}};
    ShellStatus status{.asked = values_.variable_of(value->fields)};
    if (std::ranges::none_of(value->fields, &ShellField::has_unknown))
      status.success = !value->fields.empty();
    return status;
  }

  ShellStatus compared(const Operand& first, std::string_view sign, const Operand& second) {
    const bool is_equality = sign == "=" || sign == "==" || sign == "!=";
    if (is_equality && second.is_known && second.text.empty())
      return sign == "!=" ? opposite(is_empty(first)) : is_empty(first);
    if (!first.is_known || !second.is_known)
      return {.asked = first.asked.empty() ? second.asked : first.asked};
    if (!is_equality) return compared_numbers(first, sign, second);
    ShellStatus status{.success = first.text == second.text};
    if (is_double_) status.success = fits_shell_pattern(first.text, second.pattern);
    return sign == "!=" ? opposite(status) : status;
  }

  /// Compares numbers. In [[ ... ]] a text is an expression, and in [ ... ] an error.
  ShellStatus compared_numbers(const Operand& first, std::string_view sign, const Operand& second) {
    constexpr std::string_view kSigns[] = {"-eq", "-ne", "-lt", "-ge", "-gt", "-le"};
    const auto number = [&](const Operand& word) {
      return is_double_ ? values_.number_of(word.text, 0) : whole_number(word.text);
    };
    const auto row = std::ranges::find(kSigns, sign) - std::begin(kSigns);
    if (row == std::ssize(kSigns)) return {};
    const auto a = number(first), b = number(second);
    if (!a || !b) return {.success = is_double_ ? std::nullopt : std::optional(false)};
    const bool holds = row < 2 ? *a == *b : row < 4 ? *a < *b : *a > *b;
    return {.success = holds == (row % 2 == 0)};
  }

  std::vector<Operand> operands_;
  bool is_double_;
  ShellValues& values_;
  std::size_t at_ = 0;
};

}  // namespace

ShellStatus opposite(ShellStatus status) {
  if (status.success) status.success = !*status.success;
  std::swap(status.empty_if_true, status.empty_if_false);
  return status;
}

ShellStatus either(const ShellStatus& a, const ShellStatus& b) {
  ShellStatus status{.asked = a.success || a.asked.empty() ? b.asked : a.asked,
                     .empty_if_true = a.empty_if_true};
  status.empty_if_true.insert(b.empty_if_true.begin(), b.empty_if_true.end());
  if (a.success == false && b.success == false) status.success = false;
  for (const ShellStatus* one : {&a, &b}) {
    const ShellStatus& other = one == &a ? b : a;
    if (one->success == true) status.success = true;
    if (one->success == true && one->empty_if_true.empty()) status.empty_if_true.clear();
    if (one->success == false) status.empty_if_false = other.empty_if_false;
  }
  return status;
}

ShellStatus both(const ShellStatus& a, const ShellStatus& b) {
  return opposite(either(opposite(a), opposite(b)));
}

ShellStatus shell_test(const std::vector<ShellWord>& words, bool is_double, ShellValues& values) {
  return Test(operands_of(words, is_double, values), is_double, values).status();
}

std::optional<bool> fits_one_of(const std::vector<ShellWord>& patterns, const ShellField& text,
                                ShellValues& values) {
  std::optional<bool> fits = false;
  for (const ShellWord& word : patterns) {
    const std::string pattern = values.pattern(word);
    const bool is_known = pattern.find(kUnknownBegin) == std::string::npos && !text.has_unknown();
    std::optional<bool> one;
    if (is_known) one = fits_shell_pattern(text.text, pattern);
    if (one == true || pattern == "*") return true;
    if (!one) fits = std::nullopt;
  }
  return fits;
}

namespace {

// ---- patterns

/// Whether a pattern has neither extended parts, +(a|b), nor classes, [[:digit:]].
bool is_followed(std::string_view text, std::string_view pattern) {
  if (text.size() > kMostMatchedBytes || pattern.size() > kMostPatternBytes) return false;
  for (std::size_t at = 0; at + 1 < pattern.size(); ++at) {
    const bool is_extended = pattern[at + 1] == '(' && std::string_view("?*+@!").find(pattern[at]) < 5;
    const bool is_class = pattern.substr(at).starts_with("[:") && pattern.find(":]", at + 2) < pattern.size();
    if (is_extended || is_class) return false;
    at += pattern[at] == '\\' ? 1U : 0U;
  }
  return true;
}

bool fits(std::string_view text, std::string_view pattern) {
  return fnmatch(std::string(pattern).c_str(), std::string(text).c_str(), 0) == 0;
}

std::optional<std::string> with_parts_replaced(std::string_view text, std::string_view pattern, bool is_once,
                                               std::string_view other) {
  if (text.size() > kMostReplacedBytes) return std::nullopt;
  std::string result;
  for (bool is_done = false; !text.empty();) {
    std::size_t length = is_done ? 0 : text.size();
    while (length > 0 && !fits(text.substr(0, length), pattern)) --length;
    is_done = is_done || (is_once && length > 0);
    result += length == 0 ? text.substr(0, 1) : other;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace

std::string pattern_of_text(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("*?[]\\+@!(").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::optional<bool> fits_shell_pattern(std::string_view text, std::string_view pattern) {
  return is_followed(text, pattern) ? std::optional(fits(text, pattern)) : std::nullopt;
}

std::optional<std::string> with_pattern_replaced(std::string_view text, std::string_view pattern,
                                                 std::string_view change, std::string_view other) {
  const std::size_t size = text.size();
  const bool is_at_end = change.find('%') != std::string_view::npos;
  if (!is_followed(text, pattern)) return std::nullopt;
  if (change == "/" || change == "//") return with_parts_replaced(text, pattern, change == "/", other);
  for (std::size_t i = 0; i <= size; ++i) {
    const std::size_t length = change.size() == 2 ? size - i : i;
    if (!fits(is_at_end ? text.substr(size - length) : text.substr(0, length), pattern)) continue;
    if (is_at_end) return std::string(text.substr(0, size - length)).append(other);
    return std::string(other).append(text.substr(length));
  }
  return std::string(text);
}

}  // namespace verify
