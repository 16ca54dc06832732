#include "verify/run_arguments/shell_condition.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_pattern.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

constexpr int kMostNestedTests = 32;

/// A word of a test.
struct Operand {
  std::string text;
  bool is_known = true;
  bool may_be_many = false;
  std::string bare;      // the text, where nothing of it is quoted or expanded
  std::string asked;     // would tell what is not known
  std::string variable;  // has no value from outside where the word is empty, as far as the file says
  const ShellWord* word = nullptr;
};
using Operands = std::vector<Operand>;

/// Returns the variable of which a word is empty just where nothing gives it a value: $X, ${X:-}, ${X+x}.
std::string variable_of(const ShellWord& word, ShellValues& values) {
  using enum ShellChange;
  if (word.parts.size() != 1 || word.parts[0].kind != ShellPart::Kind::parameter) return "";
  const ShellPart& part = word.parts[0];
  const bool has_default = part.change == use_default && !part.word->parts.empty();
  const bool is_other = part.change != none && part.change != use_default && part.change != use_other;
  if (has_default || is_other || part.is_indirect || part.elements != ShellPart::Elements::one) return "";
  const bool is_name = std::ranges::all_of(part.text, is_of_shell_name);
  values.open(part.text);
  return values.find(part.text) == nullptr && is_name ? part.text : "";
}

Operands operands_of(const std::vector<ShellWord>& words, bool is_double, ShellValues& values) {
  Operands operands;
  for (const ShellWord& word : words) {
    const ShellFields fields = is_double ? ShellFields{values.whole(word)} : values.expand(word);
    for (const ShellField& field : fields) {
      const bool is_bare = std::ranges::all_of(word.parts, [](const ShellPart& part) {
        return part.kind == ShellPart::Kind::literal && !part.is_quoted;
      });
      operands.push_back({.text = field.text,
                          .is_known = !field.has_unknown(),
                          .may_be_many = field.may_be_many && field.has_unknown(),
                          .bare = is_bare ? field.text : "",
                          .asked = values.variable_of(field.text),
                          .variable = variable_of(word, values),
                          .word = &word});
    }
  }
  return operands;
}

ShellStatus known(bool success) { return {.success = success}; }

class Test {
 public:
  Test(Operands operands, bool is_double, ShellValues& values)
      : operands_(std::move(operands)), is_double_(is_double), values_(values) {}

  ShellStatus status() {
    if (!is_double_) return counted(0, operands_.size(), 0);
    const ShellStatus status = any(0);
    return at_ == operands_.size() ? status : unknown(0, operands_.size());
  }

 private:
  ShellStatus unknown(std::size_t begin, std::size_t end) const {
    ShellStatus status;
    for (; begin < end && status.asked.empty(); ++begin) status.asked = operands_[begin].asked;
    return status;
  }

  bool takes(std::string_view word) {
    const bool is_there = at_ < operands_.size() && operands_[at_].bare == word;
    if (is_there) ++at_;
    return is_there;
  }

  // [[ ... ]]
  ShellStatus any(int depth) {
    ShellStatus status = all(depth);
    while (takes("||")) status = either(status, all(depth));
    return status;
  }
  ShellStatus all(int depth) {
    ShellStatus status = one(depth);
    while (takes("&&")) status = both(status, one(depth));
    return status;
  }
  ShellStatus one(int depth) {
    if (at_ >= operands_.size() || depth == kMostNestedTests) {
      at_ = operands_.size() + 1;
      return {};
    }
    if (takes("!")) return opposite(one(depth + 1));
    if (takes("(")) {
      const ShellStatus status = any(depth + 1);
      return takes(")") ? status : ShellStatus();
    }
    std::size_t end = at_;
    const auto ends = [&](std::string_view word) {
      return end < operands_.size() && operands_[end].bare == word;
    };
    while (end < operands_.size() && !ends("&&") && !ends("||") && !ends(")")) ++end;
    return simple(std::exchange(at_, end), end);
  }

  /// [ ... ], whose meaning depends on the number of its words.
  ShellStatus counted(std::size_t begin, std::size_t end, int depth) {
    if (depth == kMostNestedTests) return unknown(begin, end);
    const std::size_t count = end - begin;
    const bool is_compared = count == 3 && is_operator(operands_[begin + 1].text);
    if (count > 3 || (count == 3 && !is_compared)) {
      for (const auto& [sign, combine] : {std::pair("-o", &either), {"-a", &both}}) {
        for (std::size_t at = begin + 1; at + 1 < end; ++at) {
          if (operands_[at].bare == sign)
            return combine(counted(begin, at, depth + 1), counted(at + 1, end, depth + 1));
        }
      }
    }
    if (count > 1 && !is_compared && operands_[begin].bare == "!")
      return opposite(counted(begin + 1, end, depth + 1));
    return simple(begin, end);
  }

  static bool is_operator(std::string_view text) {
    constexpr std::string_view kComparisons[] = {"=",   "==",  "!=",  "<",   ">",   "-eq",
                                                 "-ne", "-lt", "-le", "-gt", "-ge", "=~"};
    return std::ranges::find(kComparisons, text) != std::end(kComparisons);
  }

  /// WORD, -z WORD or WORD = WORD. Other words are an error in [ ... ], which does not succeed.
  ShellStatus simple(std::size_t begin, std::size_t end) {
    const std::size_t count = end - begin;
    if (count == 0) return known(false);
    const Operand& first = operands_[begin];
    if (count == 1) return opposite(is_empty(first));
    const Operand& second = operands_[begin + 1];
    if (count == 2 && first.bare == "-z") return is_empty(second);
    if (count == 2 && first.bare == "-n") return opposite(is_empty(second, second.may_be_many));
    if (count == 2 && first.bare == "-v") return opposite(has_no_value(second));
    if (count == 3) return compared(first, second, operands_[begin + 2]);
    const bool may_be_operator = !first.is_known || (first.text.size() == 2 && first.text[0] == '-');
    return is_double_ || may_be_operator || count > 3 ? unknown(begin, end) : known(false);
  }

  /// Whether a word is empty. One that may be no word at all is not empty in [ -n $X ].
  static ShellStatus is_empty(const Operand& word, bool may_be_none = false) {
    ShellStatus status{.success = word.is_known ? std::optional(word.text.empty()) : std::nullopt,
                       .asked = word.asked};
    if (!word.variable.empty() && !may_be_none && status.success != false)
      status.empty_if_true.insert(word.variable);
    return status;
  }

  ShellStatus has_no_value(const Operand& name) {
    if (!name.is_known) return {.asked = name.asked};
    const auto value = values_.find(name.text);
    if (value == nullptr) return {.asked = name.text, .empty_if_true = {name.text}};
    const bool is_unknown = std::ranges::any_of(value->fields, &ShellField::has_unknown);
    if (is_unknown) return {.asked = values_.variable_of(value->fields)};
    return known(value->fields.empty());
  }

  ShellStatus compared(const Operand& first, const Operand& sign, const Operand& second) {
    const std::string_view operation = is_double_ ? sign.bare : sign.text;
    if (!is_operator(operation)) return {};
    const bool is_equality = operation == "=" || operation == "==" || operation == "!=";
    const ShellStatus open{.asked = !first.is_known ? first.asked : second.asked};
    if (!is_equality && !first.is_known) return open;
    if (is_equality && second.is_known && second.text.empty())
      return operation == "!=" ? opposite(is_empty(first)) : is_empty(first);
    if (!first.is_known || !second.is_known) return open;
    if (is_equality) {
      const std::optional<bool> fits = is_double_
                                           ? fits_shell_pattern(first.text, values_.pattern(*second.word))
                                           : std::optional(first.text == second.text);
      const ShellStatus status{.success = fits};
      return operation == "!=" ? opposite(status) : status;
    }
    if (operation == "<" || operation == ">" || operation == "=~") return {};
    return compared_numbers(first, operation, second);
  }

  /// Compares numbers. In [[ ... ]] a text is an expression, and in [ ... ] an error.
  ShellStatus compared_numbers(const Operand& first, std::string_view operation, const Operand& second) {
    const auto number = [&](const Operand& word) {
      return is_double_ ? values_.number_of(word.text, word.word->line) : whole_number(word.text);
    };
    const auto a = number(first), b = number(second);
    if (!a || !b) return is_double_ ? ShellStatus() : known(false);
    if (operation == "-eq") return known(*a == *b);
    if (operation == "-ne") return known(*a != *b);
    if (operation == "-lt") return known(*a < *b);
    if (operation == "-le") return known(*a <= *b);
    if (operation == "-gt") return known(*a > *b);
    if (operation == "-ge") return known(*a >= *b);
    return {};
  }

  Operands operands_;
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
  ShellStatus status;
  if (a.success == true || b.success == true) status.success = true;
  if (a.success == false && b.success == false) status.success = false;
  status.asked = a.success || a.asked.empty() ? b.asked : a.asked;
  status.empty_if_true = a.empty_if_true;
  status.empty_if_true.insert(b.empty_if_true.begin(), b.empty_if_true.end());
  for (const ShellStatus* one : {&a, &b})
    if (one->success == true && one->empty_if_true.empty()) status.empty_if_true.clear();
  if (a.success == false) status.empty_if_false = b.empty_if_false;
  if (b.success == false) status.empty_if_false = a.empty_if_false;
  return status;
}

ShellStatus both(const ShellStatus& a, const ShellStatus& b) {
  return opposite(either(opposite(a), opposite(b)));
}

ShellStatus shell_test(std::vector<ShellWord> words, bool is_double, ShellValues& values) {
  const Operands operands = operands_of(words, is_double, values);
  return Test(operands, is_double, values).status();
}

std::optional<bool> fits_one_of(const std::vector<ShellWord>& patterns, const ShellField& text,
                                ShellValues& values) {
  std::optional<bool> fits = false;
  for (const ShellWord& word : patterns) {
    const std::string pattern = values.pattern(word);
    const bool is_known = pattern.find(kUnknownBegin) == std::string::npos && !text.has_unknown();
    const auto one = pattern == "*" ? std::optional(true)
                     : is_known     ? fits_shell_pattern(text.text, pattern)
                                    : std::nullopt;
    if (one == true) return true;
    if (!one) fits = std::nullopt;
  }
  return fits;
}

}  // namespace verify
