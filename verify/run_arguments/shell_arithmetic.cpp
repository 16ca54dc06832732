#include "verify/run_arguments/shell_arithmetic.h"

#include <cctype>
#include <cstddef>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

using Number = std::optional<std::int64_t>;
constexpr int kMostOperatorNesting = 32;

Number combined(char operation, Number left, Number right) {
  if (!left || !right) return std::nullopt;
  std::int64_t result = 0;
  switch (operation) {
    case '+':
      return __builtin_add_overflow(*left, *right, &result) ? std::nullopt : Number(result);
    case '-':
      return __builtin_sub_overflow(*left, *right, &result) ? std::nullopt : Number(result);
    case '*':
      return __builtin_mul_overflow(*left, *right, &result) ? std::nullopt : Number(result);
    default:
      if (*right == 0 || *right == -1) return std::nullopt;  // -1: the quotient may not fit
      return operation == '/' ? *left / *right : *left % *right;
  }
}

class Expression {
 public:
  Expression(std::string_view text, const ShellNumber& number_of) : text_(text), number_of_(number_of) {}

  Number whole() {
    const Number value = sum(0);
    skip_blanks();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool takes(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Number sum(int depth) {
    Number value = product(depth);
    for (;;) {
      const char operation = takes('+') ? '+' : takes('-') ? '-' : '\0';
      if (operation == '\0') return value;
      value = combined(operation, value, product(depth));
    }
  }
  Number product(int depth) {
    Number value = term(depth);
    for (;;) {
      const char operation = takes('*') ? '*' : takes('/') ? '/' : takes('%') ? '%' : '\0';
      if (operation == '\0') return value;
      value = combined(operation, value, term(depth));
    }
  }
  Number term(int depth) {
    if (depth > kMostOperatorNesting) return std::nullopt;
    if (takes('-')) return combined('-', 0, term(depth + 1));
    if (takes('(')) {
      const Number value = sum(depth + 1);
      return takes(')') ? value : std::nullopt;
    }
    takes('$');
    const bool has_brace = takes('{');
    std::string word;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      word += text_[at_++];
    if (has_brace && !takes('}')) return std::nullopt;
    if (word.empty()) return std::nullopt;
    const bool is_name = std::isdigit(static_cast<unsigned char>(word[0])) == 0;
    return is_name ? number_of_(word) : whole_number(word);
  }

  std::string_view text_;
  const ShellNumber& number_of_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view expression, const ShellNumber& number_of) {
  return Expression(expression, number_of).whole();
}

}  // namespace verify
