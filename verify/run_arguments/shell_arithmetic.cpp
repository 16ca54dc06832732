// The arithmetic of a shell, as in $((NODES * 8)), ((I++)) and `let I=2`. There is no number where a name has
// none, where a number does not fit into 64 bits or begins with 0, for elements of arrays, and for operations
// on bits. A name that is assigned where nobody knows whether that is computed is assigned no number.

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <iterator>

#include "verify/run_arguments/shell_values.h"

namespace verify {

namespace {

using Number = std::optional<std::int64_t>;

constexpr int kMostNested = 64;

struct Operator {
  std::string_view sign;
  int level;  // those of a higher one bind closer
};
constexpr Operator kOperators[] = {{"||", 1}, {"&&", 2}, {"==", 6}, {"!=", 6}, {"<=", 7}, {">=", 7}, {"<", 7},
                                   {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};

bool holds(std::string_view sign, std::int64_t a, std::int64_t b) {
  if (a == b) return sign == "==" || sign == "<=" || sign == ">=";
  return sign == "!=" || sign[0] == (a < b ? '<' : '>');
}

Number counted(char sign, std::int64_t a, std::int64_t b) {
  std::int64_t number = 0;
  bool is_beyond = b == 0 || (a == INT64_MIN && b == -1);
  if (sign == '+') is_beyond = __builtin_add_overflow(a, b, &number);
  if (sign == '-') is_beyond = __builtin_sub_overflow(a, b, &number);
  if (sign == '*') is_beyond = __builtin_mul_overflow(a, b, &number);
  if (is_beyond) return std::nullopt;
  return sign == '/' ? a / b : sign == '%' ? a % b : number;
}

Number applied(std::string_view sign, Number a, Number b) {
  if (sign == "&&") return a == 0 || b == 0 ? Number(0) : a && b ? Number(1) : std::nullopt;
  if (sign == "||") return applied("==", applied("&&", applied("==", a, 0), applied("==", b, 0)), 0);
  if (!a || !b) return std::nullopt;
  const bool is_counted = std::string_view("+-*/%").find(sign[0]) != std::string_view::npos;
  return is_counted ? counted(sign[0], *a, *b) : Number(holds(sign, *a, *b) ? 1 : 0);
}

class Expression {
 public:
  /// `asked` gets the variable that would tell the first number that is not known.
  Expression(std::string_view text, ShellValues& values, int line, std::string& asked, int depth = 0)
      : text_(text), values_(values), line_(line), asked_(asked), depth_(depth) {}

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

  std::string_view rest() const { return text_.substr(at_); }
  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool takes(std::string_view sign) {
    if (!rest().starts_with(sign)) return false;
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

  /// Of an expression that is not followed, no name is known that it may assign.
  void forget_assigned() {
    const bool assigns = text_.find('=') != std::string_view::npos ||
                         text_.find("++") != std::string_view::npos ||
                         text_.find("--") != std::string_view::npos;
    for (at_ = 0; assigns && at_ < text_.size(); ++at_)
      if (const std::string name = takes_name(); !name.empty()) assign(name, std::nullopt);
  }

  Number assigned(const std::string& name, Number number) {
    if (name.empty()) return wrong();
    if (runs_ != Runs::no) assign(name, runs_ == Runs::yes ? number : std::nullopt);
    return number;
  }

  void assign(const std::string& name, Number number) {
    if (number) return values_.define(name, fmt::format("{}", *number), line_);
    if (!values_.is_locked(name)) values_.forget(name, line_, "it is assigned by arithmetic");
  }

  Number value_of(const std::string& name) {
    if (runs_ == Runs::no) return std::nullopt;
    const ShellValuePointer value = values_.find(name);
    if (asked_.empty())
      asked_ = value == nullptr ? values_.name_outside(name) : values_.variable_of(value->fields);
    if (value == nullptr || depth_ >= kMostNested) return std::nullopt;
    const std::string text = value->fields.empty() ? "" : value->fields.front().text;
    return Expression(text, values_, line_, asked_, depth_ + 1).value();
  }

  /// Computes a part that is computed only as another one decides.
  template <typename Part>
  Number nested(const Part& part, bool is_computed = true, Number decides = 0) {
    const Runs around = runs_;
    if (runs_ != Runs::no && !is_computed) runs_ = decides ? Runs::no : Runs::maybe;
    if (++depth_ > kMostNested) is_wrong_ = true;
    const Number number = is_wrong_ ? std::nullopt : part();
    --depth_;
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
    const std::string_view sign = rest();
    const bool sets = sign.starts_with('=') && !sign.starts_with("==");
    const bool changes = sign.size() > 1 && sign[1] == '=' && std::string_view("+-*/%").find(sign[0]) < 5;
    if (name.empty() || (!sets && !changes)) {
      at_ = begin;
      return choice();
    }
    takes(sign.substr(0, sets ? 1 : 2));
    const Number right = nested([&] { return assignment(); });
    return assigned(name, sets ? right : applied(sign.substr(0, 1), value_of(name), right));
  }

  Number choice() {
    const Number condition = binary(1);
    if (!takes("?")) return condition;
    const Number first = nested([&] { return list(); }, condition && *condition != 0, condition);
    if (!takes(":")) return wrong();
    const Number second = nested([&] { return choice(); }, condition == 0, condition);
    return !condition ? std::nullopt : *condition != 0 ? first : second;
  }

  Number binary(int lowest) {
    Number left = nested([&] { return unary(); });
    for (;;) {
      const auto* const row =
          std::ranges::find_if(kOperators, [&](const Operator& one) { return rest().starts_with(one.sign); });
      if (row == std::end(kOperators) || row->level < lowest || is_wrong_) return left;
      takes(row->sign);
      const bool is_computed = row->level > 2 || (row->level == 2 ? left && *left != 0 : left == 0);
      const int level = row->level + 1;
      left = applied(row->sign, left, nested([&] { return binary(level); }, is_computed, left));
    }
  }

  Number unary() {
    const auto inner = [&] { return nested([&] { return unary(); }); };
    for (const std::string_view sign : {"++", "--"}) {
      if (!takes(sign)) continue;
      const std::string name = takes_name();
      return assigned(name, applied(sign.substr(0, 1), value_of(name), 1));
    }
    if (takes("-")) return applied("-", 0, inner());
    if (takes("+")) return inner();
    if (takes("!")) return applied("==", inner(), 0);
    if (takes("(")) {
      const Number number = nested([&] { return list(); });
      return takes(")") ? number : wrong();
    }
    const std::string name = takes_name();
    if (name.empty()) {
      const std::string written = takes_word();
      const bool is_plain = written.size() == 1 || !written.starts_with('0');
      return is_plain && whole_number(written) ? whole_number(written) : wrong();
    }
    if (rest().starts_with('[')) return wrong();  // an element
    const Number number = value_of(name);
    for (const std::string_view sign : {"++", "--"})
      if (takes(sign)) assigned(name, applied(sign.substr(0, 1), number, 1));
    return number;
  }

  std::string_view text_;
  ShellValues& values_;
  int line_;
  std::string& asked_;
  int depth_;
  std::size_t at_ = 0;
  bool is_wrong_ = false;
  Runs runs_ = Runs::yes;  // whether the part that is read is computed
};

}  // namespace

Number ShellValues::number_of(const std::string& expression, int line, std::string* asked) {
  std::string first = variable_of({{expression, line}});
  const Number number = Expression(expression, *this, line, first).value();
  if (asked != nullptr) *asked = first;
  return number;
}

}  // namespace verify
