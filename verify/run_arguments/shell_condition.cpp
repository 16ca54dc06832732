#include "verify/run_arguments/shell_condition.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_expression.h"
#include "verify/run_arguments/shell_pattern.h"

namespace verify {

namespace {

using Truth = std::optional<bool>;

constexpr int kMostNestedTests = 32;

Truth opposite(Truth truth) { return truth ? Truth(!*truth) : truth; }

Truth both(Truth a, Truth b) {
  if (a == false || b == false) return false;
  return a && b ? Truth(true) : std::nullopt;
}

Truth either(Truth a, Truth b) { return opposite(both(opposite(a), opposite(b))); }

/// A word of a test. An operator is a word without quotes.
struct TestWord {
  std::string text;
  bool is_known = true;
  bool is_pattern = false;  // it has characters outside of quotes that stand for others
  std::string pattern;      // the word as one, where it is
  std::string bare;         // the text, where nothing of it is quoted or expanded
  std::string expression;   // of a word behind =~: what is quoted stands for itself
};

bool has_pattern(const ShellPart& part) {
  return !part.is_quoted && part.text.find_first_of("*?[") != std::string::npos;
}

TestWord test_word(const ShellWord& word, ShellValues& values, bool splits) {
  TestWord result;
  if (splits) {
    const std::vector<ShellField> fields = values.expand(word);
    if (fields.size() != 1)
      return {.text = "", .is_known = false, .is_pattern = false, .pattern = "", .bare = ""};
    result.text = fields.front().text;
    result.is_known = !fields.front().has_unknown();
  } else {
    const ShellField field = values.whole(word);
    result.text = field.text;
    result.is_known = !field.has_unknown();
  }
  const auto is_bare = [](const ShellPart& part) {
    return part.kind == ShellPart::Kind::literal && !part.is_quoted;
  };
  if (std::ranges::all_of(word.parts, is_bare)) result.bare = result.text;
  // The value of a variable is a pattern, too, unless it is quoted.
  const bool is_all_quoted = std::ranges::all_of(word.parts, &ShellPart::is_quoted);
  result.is_pattern = std::ranges::any_of(word.parts, has_pattern) ||
                      (!is_all_quoted && result.text.find_first_of("*?[") != std::string::npos);
  if (result.is_pattern && result.is_known && !splits) result.pattern = values.pattern(word);
  return result;
}

/// Returns a word behind =~ as a regular expression.
std::string expression_of(const ShellWord& word, ShellValues& values) {
  std::string expression;
  for (const ShellPart& part : word.parts) {
    for (const char c : values.whole({.parts = {part}, .line = word.line}).text) {
      const bool is_sign = std::string_view("\\.*[]^$+?(){}|").find(c) != std::string_view::npos;
      if (part.is_quoted && is_sign) expression += '\\';
      expression += c;
    }
  }
  return expression;
}

/// Reads the words of a test, whose brackets are left out.
class Test {
 public:
  Test(std::vector<TestWord> words, bool is_double, const ShellValues& values)
      : words_(std::move(words)), is_double_(is_double), values_(values) {}

  Truth truth() {
    const Truth truth = any(0);
    return at_ == words_.size() ? truth : std::nullopt;
  }

  /// Whether a =~ has been asked, or may have been.
  bool has_searched() const { return has_searched_; }
  /// What the last =~ has found, as BASH_REMATCH has it; none where that is not known.
  const std::optional<std::vector<std::string>>& found() const { return found_; }

 private:
  bool at(std::string_view word) const { return at_ < words_.size() && words_[at_].bare == word; }
  bool takes(std::string_view word) {
    const bool is_there = at(word);
    if (is_there) ++at_;
    return is_there;
  }

  Truth any(int depth) {
    Truth truth = all(depth);
    while (takes(is_double_ ? "||" : "-o")) {
      const Asked before = asks_behind(truth, true);
      truth = either(truth, all(depth));
      asked_ = before;
    }
    return truth;
  }

  Truth all(int depth) {
    Truth truth = one(depth);
    while (takes(is_double_ ? "&&" : "-a")) {
      const Asked before = asks_behind(truth, false);
      truth = both(truth, one(depth));
      asked_ = before;
    }
    return truth;
  }

  /// Whether the shell asks a part of the test: what stands behind && and || may be decided before it.
  enum class Asked { no, maybe, yes };
  Asked asks_behind(Truth truth, bool decides) {
    const Asked behind = !truth ? Asked::maybe : *truth == decides ? Asked::no : Asked::yes;
    return std::exchange(asked_, std::min(asked_, behind));
  }

  Truth one(int depth) {
    if (depth == kMostNestedTests) return stop();
    if (takes("!")) return opposite(one(depth + 1));
    if (is_double_ && takes("(")) {
      const Truth truth = any(depth + 1);
      return takes(")") ? truth : stop();
    }
    return comparison();
  }

  Truth comparison() {
    if (at_ == words_.size()) return is_double_ ? stop() : Truth(false);  // [ ] is false
    if (!is_double_ && words_.size() <= 2 && at_ == 0) return short_test();
    const TestWord& first = words_[at_++];
    if (first.bare == "-z" || first.bare == "-n") {
      if (at_ == words_.size()) return stop();
      const TestWord& word = words_[at_++];
      if (!word.is_known) return std::nullopt;
      return word.text.empty() == (first.bare == "-z");
    }
    if (first.bare == "-v" && at_ != words_.size()) return assigned(words_[at_++]);
    const bool ends =
        at_ == words_.size() || (is_double_ ? at("&&") || at("||") || at(")") : at("-a") || at("-o"));
    if (ends) return first.is_known ? Truth(!first.text.empty()) : std::nullopt;
    const std::string operation = words_[at_++].bare;
    if (at_ == words_.size()) return stop();
    return compared(first, operation, words_[at_++]);
  }

  /// [ WORD ] and [ -z WORD ]. Two words of which the first is no operator of one word (-f) are an error,
  /// which is no success: [ -eq 1 ] is what an empty value leaves of [ $X -eq 1 ].
  Truth short_test() {
    at_ = words_.size();
    const TestWord& word = words_.back();
    const std::string& sign = words_.front().bare;
    if (words_.size() == 2 && sign == "-v") return assigned(word);
    if (words_.size() == 2 && sign != "-z" && sign != "-n") {
      const std::string& text = words_.front().text;
      const bool may_be_operator = text.size() == 2 && text[0] == '-';
      return words_.front().is_known && !may_be_operator ? Truth(false) : std::nullopt;
    }
    if (!word.is_known) return std::nullopt;
    return words_.size() == 2 && sign == "-z" ? word.text.empty() : !word.text.empty();
  }

  Truth compared(const TestWord& first, std::string_view operation, const TestWord& second) {
    if (operation == "=" || operation == "==" || operation == "!=") {
      if (!first.is_known || !second.is_known) return std::nullopt;
      if (is_double_ && second.is_pattern) {
        const Truth fits = fits_shell_pattern(first.text, second.pattern);
        return operation == "!=" ? opposite(fits) : fits;
      }
      return (first.text == second.text) == (operation != "!=");
    }
    if (operation == "=~" && is_double_) {
      has_searched_ = has_searched_ || asked_ != Asked::no;
      if (asked_ != Asked::no) found_.reset();
      if (!first.is_known || !second.is_known) return std::nullopt;
      const auto found = found_by_expression(first.text, second.expression);
      if (asked_ == Asked::yes) found_ = found;
      return found ? Truth(!found->empty()) : std::nullopt;
    }
    if (is_double_ && (operation == "<" || operation == ">")) return ordered(first, operation, second);
    const auto a = whole_number(first.text), b = whole_number(second.text);
    if (!a || !b) return std::nullopt;
    if (operation == "-eq") return *a == *b;
    if (operation == "-ne") return *a != *b;
    if (operation == "-lt") return *a < *b;
    if (operation == "-le") return *a <= *b;
    if (operation == "-gt") return *a > *b;
    if (operation == "-ge") return *a >= *b;
    return std::nullopt;
  }

  /// [[ 10 < 9 ]] compares texts. Digits have the same order everywhere.
  static Truth ordered(const TestWord& first, std::string_view operation, const TestWord& second) {
    const auto are_digits = [](const TestWord& word) {
      return word.is_known && word.text.find_first_not_of("0123456789") == std::string::npos;
    };
    if (!are_digits(first) || !are_digits(second)) return std::nullopt;
    return operation == "<" ? first.text < second.text : first.text > second.text;
  }

  /// Whether the file gives a variable a value. Without one, the environment may.
  Truth assigned(const TestWord& name) const {
    if (!name.is_known || values_.is_given_nothing(name.text)) return std::nullopt;
    const bool is_of_file = std::ranges::find(values_.names(), name.text) != values_.names().end();
    if (is_of_file && std::ranges::any_of(values_.value(name.text), &ShellField::has_unknown))
      return std::nullopt;
    return true;
  }

  /// What is no test that is read here has no known truth, and neither has the rest.
  Truth stop() {
    at_ = words_.size() + 1;
    return std::nullopt;
  }

  std::vector<TestWord> words_;
  bool is_double_;
  const ShellValues& values_;
  std::size_t at_ = 0;
  Asked asked_ = Asked::yes;  // of the part that is read
  bool has_searched_ = false;
  std::optional<std::vector<std::string>> found_;
};

Truth truth_of(const ShellCommand& command, ShellValues& values) {
  if (command.words.empty()) return true;
  const TestWord first = test_word(command.words.front(), values, true);
  const std::string_view name = first.bare;
  if (name == "true" || name == ":") return true;
  if (name == "false") return false;
  if (name == "((" && command.words.size() == 2) {
    const auto number = whole_number(values.whole(command.words[1]).text);
    return number ? Truth(*number != 0) : std::nullopt;
  }
  const bool is_double = name == "[[";
  if (!is_double && name != "[" && name != "test") return std::nullopt;
  std::vector<TestWord> words;
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    // Without quotes, a value that is empty is no word of [ ... ].
    if (!is_double && values.expand(command.words[i]).empty()) continue;
    const bool is_expression = is_double && words.size() > 0 && words.back().bare == "=~";
    words.push_back(test_word(command.words[i], values, !is_double));
    if (is_expression) words.back().expression = expression_of(command.words[i], values);
  }
  if (name != "test") {
    if (words.empty() || words.back().bare != (is_double ? "]]" : "]")) return std::nullopt;
    words.pop_back();
  }
  Test test(std::move(words), is_double, values);
  const Truth truth = test.truth();
  if (!test.has_searched()) return truth;
  if (!test.found()) {
    values.forget(kFoundByExpression, command.line, "what =~ has found is not known");
    return truth;
  }
  std::vector<ShellField> found;
  for (const std::string& text : *test.found()) found.push_back({text, command.line});
  values.define(kFoundByExpression, std::move(found));
  return truth;
}

}  // namespace

bool finds_by_expression(const ShellCommand& command) {
  return std::ranges::any_of(command.words, [](const ShellWord& word) { return is_literal(word, "=~"); });
}

std::optional<bool> shell_condition(const ShellCommand& command, ShellValues& values) {
  const Truth truth = truth_of(command, values);
  return command.is_negated ? opposite(truth) : truth;
}

std::string name_tested_as_empty(const ShellCommand& command, const ShellValues& values) {
  const std::vector<ShellWord>& words = command.words;
  if (words.size() != 4 || command.is_negated) return "";
  const bool is_test = (is_literal(words[0], "[") && is_literal(words[3], "]")) ||
                       (is_literal(words[0], "[[") && is_literal(words[3], "]]"));
  if (!is_test || !is_literal(words[1], "-z")) return "";
  const ShellPart* tested = nullptr;
  for (const ShellPart& part : words[2].parts) {
    if (part.kind == ShellPart::Kind::literal && part.text.empty()) continue;  // an opening quote
    const bool is_value = part.kind == ShellPart::Kind::variable && !part.replaced &&
                          (!part.fallback || part.fallback->parts.empty());
    if (tested != nullptr || !is_value) return "";
    tested = &part;
  }
  return tested != nullptr && values.is_given_nothing(tested->text) ? tested->text : "";
}

std::optional<bool> shell_pattern_fits(const std::vector<ShellWord>& patterns, const ShellWord& subject,
                                       ShellValues& values) {
  const TestWord word = test_word(subject, values, false);
  Truth fits = false;
  for (const ShellWord& pattern : patterns) {
    const TestWord text = test_word(pattern, values, false);
    if (text.bare == "*") return true;
    if (!word.is_known || !text.is_known) {
      fits = either(fits, std::nullopt);
    } else {
      fits = either(fits, text.is_pattern ? fits_shell_pattern(word.text, text.pattern)
                                          : Truth(word.text == text.text));
    }
  }
  return fits;
}

}  // namespace verify
