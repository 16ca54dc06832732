#include "verify/run_arguments/shell_arithmetic.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>

#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

using Number = std::optional<std::int64_t>;

constexpr int kMostNestedSums = 64;

struct Operator {
  std::string_view sign;
  int level;  // those of a higher one bind closer
};
constexpr Operator kOperators[] = {{"||", 1},  {"&&", 2}, {"==", 6}, {"!=", 6}, {"<=", 7},
                                   {">=", 7},  {"<", 7},  {">", 7},  {"+", 9},  {"-", 9},
                                   {"**", 11}, {"*", 10}, {"/", 10}, {"%", 10}};

Number power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  if (exponent < 0 || exponent > 63) return std::nullopt;
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  return result;
}

Number counted(std::string_view sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (sign == "**") return power(a, b);
  if (sign == "+" && __builtin_add_overflow(a, b, &result)) return std::nullopt;
  if (sign == "-" && __builtin_sub_overflow(a, b, &result)) return std::nullopt;
  if (sign == "*" && __builtin_mul_overflow(a, b, &result)) return std::nullopt;
  if (sign != "/" && sign != "%") return result;
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  return sign == "/" ? a / b : a % b;
}

bool holds(std::string_view sign, std::int64_t a, std::int64_t b) {
  if (a == b) return sign == "==" || sign == "<=" || sign == ">=";
  return sign == "!=" || sign[0] == (a < b ? '<' : '>');
}

Number applied(const Operator& operation, Number a, Number b) {
  const std::string_view sign = operation.sign;
  if (sign == "&&" && (a == 0 || b == 0)) return 0;
  if (sign == "||" && ((a && *a != 0) || (b && *b != 0))) return 1;
  if (!a || !b) return std::nullopt;
  if (operation.level < 6) return sign == "&&" ? 1 : 0;
  return operation.level < 9 ? Number(holds(sign, *a, *b)) : counted(sign, *a, *b);
}

class Expression {
 public:
  Expression(std::string_view text, const ArithmeticNames& names, int depth)
      : text_(text), names_(names), depth_(depth) {}

  Number value() {
    skip_blanks();
    if (at_ == text_.size()) return 0;
    const Number number = list();
    is_wrong_ = is_wrong_ || at_ != text_.size();
    if (is_wrong_) forget_assigned();
    return is_wrong_ ? std::nullopt : number;
  }

 private:
  enum class Runs { no, maybe, yes };

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool takes(std::string_view sign) {
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    skip_blanks();
    return true;
  }
  std::string takes_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_of_shell_name(text_[at_])) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    skip_blanks();
    return word;
  }
  std::string takes_name() { return at_ < text_.size() && begins_shell_name(text_[at_]) ? takes_word() : ""; }
  Number wrong() {
    is_wrong_ = true;
    return std::nullopt;
  }

  /// Of an expression that is not followed, no name that it may assign is known.
  void forget_assigned() {
    for (at_ = 0; at_ < text_.size(); ++at_) {
      const bool is_behind_step =
          at_ > 1 && (text_.substr(at_ - 2, 2) == "++" || text_.substr(at_ - 2, 2) == "--");
      const std::string name = takes_name();
      const std::string_view rest = text_.substr(at_);
      const std::size_t sign = std::min(rest.find('='), rest.size());
      const bool is_assigned = (sign < 3 && rest.find_first_of("=+-*/%<>&^|[") == 0) ||
                               rest.starts_with("++") || rest.starts_with("--") || rest.starts_with('[') ||
                               is_behind_step;
      if (!name.empty() && is_assigned) names_.assign(name, std::nullopt);
    }
  }

  Number assigned(const std::string& name, Number number) {
    if (runs_ != Runs::no) names_.assign(name, runs_ == Runs::yes ? number : std::nullopt);
    return number;
  }

  Number value_of(const std::string& name) {
    const auto text = runs_ == Runs::no ? std::nullopt : names_.value(name);
    if (!text || depth_ >= kMostNestedSums) return std::nullopt;
    return Expression(*text, names_, depth_ + 1).value();
  }

  template <typename Part>
  Number nested(const Part& part) {
    if (++depth_ > kMostNestedSums) is_wrong_ = true;
    const Number number = is_wrong_ ? std::nullopt : part();
    --depth_;
    return number;
  }

  /// Computes a part that is computed only as another one decides.
  template <typename Part>
  Number behind(Number decides, bool is_computed, const Part& part) {
    const Runs around = runs_;
    if (runs_ != Runs::no && !is_computed) runs_ = decides ? Runs::no : Runs::maybe;
    const Number number = nested(part);
    runs_ = around;
    return number;
  }

  Number list() {
    Number number = assignment();
    while (takes(",")) number = assignment();
    return number;
  }

  Number assignment() {
    const std::size_t begin = at_;
    const std::string name = takes_name();
    const std::string_view rest = text_.substr(at_);
    const bool sets = rest.starts_with('=') && !rest.starts_with("==");
    const bool changes = !rest.empty() && std::string_view("+-*/%").find(rest[0]) != std::string_view::npos &&
                         rest.substr(1).starts_with('=');
    if (name.empty() || (!sets && !changes)) {
      at_ = begin;
      return choice();
    }
    takes(rest.substr(0, sets ? 1 : 2));
    const Number right = nested([&] { return assignment(); });
    return assigned(name, sets ? right : applied({rest.substr(0, 1), 9}, value_of(name), right));
  }

  Number choice() {
    const Number condition = binary(1);
    if (!takes("?")) return condition;
    const Number first = behind(condition, condition && *condition != 0, [&] { return list(); });
    if (!takes(":")) return wrong();
    const Number second = behind(condition, condition == 0, [&] { return choice(); });
    if (!condition) return std::nullopt;
    return *condition != 0 ? first : second;
  }

  Number binary(int lowest) {
    Number left = nested([&] { return unary(); });
    for (;;) {
      const auto* const row = std::ranges::find_if(
          kOperators, [&](const Operator& one) { return text_.substr(at_).starts_with(one.sign); });
      if (row == std::end(kOperators) || row->level < lowest || is_wrong_) return left;
      takes(row->sign);
      const bool is_computed = row->level > 2 || (row->sign == "&&" ? left && *left != 0 : left == 0);
      const int level = row->level + (row->sign == "**" ? 0 : 1);
      const Number right = behind(left, is_computed, [&] { return binary(level); });
      left = applied(*row, left, right);
    }
  }

  Number unary() {
    const auto inner = [&] { return nested([&] { return unary(); }); };
    for (const std::string_view sign : {"++", "--"}) {
      if (!takes(sign)) continue;
      const std::string name = takes_name();
      return name.empty() ? wrong() : assigned(name, applied({sign.substr(0, 1), 9}, value_of(name), 1));
    }
    if (takes("-")) return applied({"-", 9}, 0, inner());
    if (takes("+")) return inner();
    if (!takes("!")) return primary();
    const Number number = inner();
    return number ? Number(*number == 0) : number;
  }

  Number primary() {
    if (takes("(")) {
      const Number number = nested([&] { return list(); });
      return takes(")") ? number : wrong();
    }
    const std::string name = takes_name();
    if (name.empty()) {
      const std::string written = takes_word();
      const Number number = whole_number(written);
      return number && (written.size() == 1 || written[0] != '0') ? number : wrong();
    }
    if (text_.substr(at_).starts_with('[')) return wrong();  // an element
    const Number number = value_of(name);
    for (const std::string_view sign : {"++", "--"})
      if (takes(sign)) assigned(name, applied({sign.substr(0, 1), 9}, number, 1));
    return number;
  }

  std::string_view text_;
  const ArithmeticNames& names_;
  int depth_;
  std::size_t at_ = 0;
  bool is_wrong_ = false;
  Runs runs_ = Runs::yes;  // whether the part that is read is computed
};

}  // namespace

Number shell_arithmetic(std::string_view expression, const ArithmeticNames& names) {
  return Expression(expression, names, 0).value();
}

}  // namespace verify
