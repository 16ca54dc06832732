#include "verify/run_arguments/shell_arithmetic.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <system_error>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

using Number = std::optional<std::int64_t>;
constexpr int kMostOperatorNesting = 32;

struct Operator {
  std::string_view sign;
  int precedence;  // a higher one binds more
};
// A sign stands before those that it begins with.
constexpr std::array<Operator, 19> kOperators = {{{"||", 1},
                                                  {"&&", 2},
                                                  {"|", 3},
                                                  {"^", 4},
                                                  {"&", 5},
                                                  {"==", 6},
                                                  {"!=", 6},
                                                  {"<=", 7},
                                                  {">=", 7},
                                                  {"<<", 8},
                                                  {">>", 8},
                                                  {"<", 7},
                                                  {">", 7},
                                                  {"+", 9},
                                                  {"-", 9},
                                                  {"**", 11},
                                                  {"*", 10},
                                                  {"/", 10},
                                                  {"%", 10}}};

Number truth(bool is_true) { return is_true ? 1 : 0; }

Number power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::nullopt;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  std::int64_t result = 1;  // of a larger base, at most 63 steps fit
  for (std::int64_t i = 0; i < exponent && (base != -1 || i < exponent % 2); ++i)
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  return result;
}

Number shifted(std::int64_t value, std::int64_t places, bool is_left) {
  constexpr std::int64_t kMostPlaces = 62;
  if (value < 0 || places < 0 || places > kMostPlaces) return std::nullopt;
  std::int64_t result = value >> places;
  if (is_left && __builtin_mul_overflow(value, std::int64_t{1} << places, &result)) return std::nullopt;
  return result;
}

Number combined(std::string_view sign, Number left, Number right) {
  if (!left || !right) return std::nullopt;
  const std::int64_t a = *left, b = *right;
  std::int64_t result = 0;
  if (sign == "||") return truth(a != 0 || b != 0);
  if (sign == "&&") return truth(a != 0 && b != 0);
  if (sign == "|") return a | b;
  if (sign == "^") return a ^ b;
  if (sign == "&") return a & b;
  if (sign == "<<" || sign == ">>") return shifted(a, b, sign == "<<");
  if (sign == "==") return truth(a == b);
  if (sign == "!=") return truth(a != b);
  if (sign == "<=") return truth(a <= b);
  if (sign == ">=") return truth(a >= b);
  if (sign == "<") return truth(a < b);
  if (sign == ">") return truth(a > b);
  if (sign == "+") return __builtin_add_overflow(a, b, &result) ? std::nullopt : Number(result);
  if (sign == "-") return __builtin_sub_overflow(a, b, &result) ? std::nullopt : Number(result);
  if (sign == "**") return power(a, b);
  if (sign == "*") return __builtin_mul_overflow(a, b, &result) ? std::nullopt : Number(result);
  if (b == 0 || b == -1) return std::nullopt;  // -1: the quotient may not fit
  return sign == "/" ? a / b : a % b;
}

/// Returns the number of digits to a base from 2 to 36.
Number number_of_base(std::string_view digits, int base) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size() && digits.front() != '-';
  return is_whole ? Number(number) : std::nullopt;
}

/// Returns the number of digits; of those to the base 8 behind a zero, to the base 16 behind "0x", and to a
/// base that is written before them: 10#08.
Number number_written(std::string_view digits) {
  constexpr std::int64_t kMostBase = 36;
  if (const std::size_t sign = digits.find('#'); sign != std::string_view::npos) {
    const Number base = whole_number(digits.substr(0, sign));
    const bool is_base = base && *base >= 2 && *base <= kMostBase && sign + 1 < digits.size();
    return is_base ? number_of_base(digits.substr(sign + 1), static_cast<int>(*base)) : std::nullopt;
  }
  if (digits.size() < 2 || digits.front() != '0') return whole_number(digits);
  const bool is_of_16 = digits[1] == 'x' || digits[1] == 'X';
  digits.remove_prefix(is_of_16 ? 2 : 1);
  return digits.empty() ? std::nullopt : number_of_base(digits, is_of_16 ? 16 : 8);
}

class Expression {
 public:
  Expression(std::string_view text, const ShellNumber& number_of) : text_(text), number_of_(number_of) {}

  Number whole() {
    const Number value = choice(0);
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

  /// Returns the operator that stands here; null for another sign, such as "+=" or "<<=".
  const Operator* next_operator() {
    skip_blanks();
    const std::string_view rest = text_.substr(at_);
    const auto* const found = std::ranges::find_if(
        kOperators, [&](const Operator& candidate) { return rest.starts_with(candidate.sign); });
    if (found == kOperators.end()) return nullptr;
    const std::string_view behind = rest.substr(found->sign.size());
    const bool shifts = found->sign == "<<" || found->sign == ">>";
    const bool goes_on = !behind.empty() && (found->sign.size() == 1 || shifts) &&
                         (behind[0] == '=' || (behind[0] == rest[0] && rest[0] != '-' && rest[0] != '+'));
    return goes_on ? nullptr : found;
  }

  /// condition ? value : value
  Number choice(int depth) {
    if (depth > kMostOperatorNesting) return std::nullopt;
    const Number condition = binary(1, depth);
    if (!takes('?')) return condition;
    const Number first = choice(depth + 1);
    if (!takes(':')) return std::nullopt;
    const Number second = choice(depth + 1);
    if (!condition) return std::nullopt;
    return *condition != 0 ? first : second;
  }

  Number binary(int least, int depth) {
    Number value = term(depth);
    for (;;) {
      const Operator* const found = next_operator();
      if (found == nullptr || found->precedence < least) return value;
      at_ += found->sign.size();
      const int least_behind = found->sign == "**" ? found->precedence : found->precedence + 1;
      value = combined(found->sign, value, binary(least_behind, depth));
    }
  }

  Number term(int depth) {
    if (depth > kMostOperatorNesting) return std::nullopt;
    if (takes('-')) {
      const bool decrements = at_ < text_.size() && text_[at_] == '-';
      return decrements ? std::nullopt : combined("-", 0, term(depth + 1));
    }
    if (takes('+')) return at_ < text_.size() && text_[at_] == '+' ? std::nullopt : term(depth + 1);
    if (takes('!')) {
      const Number value = term(depth + 1);
      return value ? truth(*value == 0) : value;
    }
    if (takes('(')) {
      const Number value = choice(depth + 1);
      return takes(')') ? value : std::nullopt;
    }
    skip_blanks();
    std::string word;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      word += text_[at_++];
    if (word.empty()) return std::nullopt;
    const bool is_base = std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_base && at_ < text_.size() && text_[at_] == '#') {
      do word += text_[at_++];
      while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_])) != 0);
    }
    const bool is_name = std::isdigit(static_cast<unsigned char>(word[0])) == 0;
    const std::optional<std::string> digits = is_name ? number_of_(word) : word;
    if (digits && digits->empty()) return 0;
    return digits ? number_written(*digits) : std::nullopt;
  }

  std::string_view text_;
  const ShellNumber& number_of_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view expression, const ShellNumber& number_of) {
  return Expression(expression, number_of).whole();
}

std::vector<std::string> names_assigned_by(std::string_view expression) {
  std::vector<std::string> names;
  const auto is_of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  std::string_view before = " ";  // the sign before a name
  while (!expression.empty()) {
    const std::size_t length =
        static_cast<std::size_t>(std::ranges::find_if_not(expression, is_of_name) - expression.begin());
    if (length == 0) {
      before = expression.substr(0, std::min<std::size_t>(2, expression.size()));
      const bool is_step = before == "++" || before == "--";
      if (!is_step && std::isspace(static_cast<unsigned char>(before[0])) == 0) before = " ";
      expression.remove_prefix(is_step ? 2 : 1);
      continue;
    }
    const std::string name(expression.substr(0, length));
    expression.remove_prefix(length);
    std::string_view behind = expression;
    const auto skip_blanks = [&] {
      behind.remove_prefix(std::min(behind.find_first_not_of(" \t\r\n"), behind.size()));
    };
    skip_blanks();
    if (behind.starts_with('[')) behind.remove_prefix(std::min(behind.find(']'), behind.size() - 1) + 1);
    skip_blanks();
    const bool steps =
        before == "++" || before == "--" || behind.starts_with("++") || behind.starts_with("--");
    while (!behind.empty() && std::string_view("+-*/%&|^").find(behind[0]) != std::string_view::npos)
      behind.remove_prefix(1);
    if (behind.starts_with("<<=") || behind.starts_with(">>=")) behind.remove_prefix(2);
    const bool assigns = behind.starts_with('=') && !behind.starts_with("==");
    if (steps || assigns) names.push_back(name);
    before = " ";
  }
  return names;
}

}  // namespace verify
