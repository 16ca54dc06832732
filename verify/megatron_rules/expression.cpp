#include "verify/megatron_rules/expression.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "sim/base/check.h"
#include "sim/base/printable_text.h"
#include "verify/vocabulary/spelled_values.h"

namespace verify {

/// A leaf or an operator, which is a function of its parts.
struct Expression::Node {
  using Function = RuleValue (*)(const Node&, const RuleFacts&);

  Function function;
  std::string word;  // of a leaf
  std::vector<Node> parts;

  RuleValue value(const RuleFacts& facts) const { return function(*this, facts); }
  RuleValue part(std::size_t index, const RuleFacts& facts) const { return parts[index].value(facts); }
};

namespace {

namespace operators {

using Node = Expression::Node;

// ---- leaves

RuleValue argument(const Node& node, const RuleFacts& facts) { return facts.argument(node.word.substr(2)); }
RuleValue variable(const Node& node, const RuleFacts& facts) {
  return facts.environment(node.word.substr(1));
}
RuleValue name(const Node& node, const RuleFacts& facts) { return named_value(node.word, facts); }
RuleValue number(const Node& node, const RuleFacts&) { return decimal_number(node.word).value(); }
RuleValue text(const Node& node, const RuleFacts&) { return node.word.substr(1); }
RuleValue list(const Node& node, const RuleFacts&) {
  std::vector<std::string> words;
  for (const Node& part : node.parts) words.push_back(part.word.substr(1));
  return words;
}

// ---- logic

/// Looks for a part with this truth, which then is the truth of all.
RuleValue sought(const Node& node, const RuleFacts& facts, bool truth) {
  bool is_known = true;
  for (const Node& part : node.parts) {
    const std::optional<bool> found = truth_of(part.value(facts));
    if (found == truth) return truth;
    is_known = is_known && found;
  }
  return is_known ? RuleValue(!truth) : RuleValue(Unknown{});
}
RuleValue one_of(const Node& node, const RuleFacts& facts) { return sought(node, facts, true); }
RuleValue all_of(const Node& node, const RuleFacts& facts) { return sought(node, facts, false); }
RuleValue negation(const Node& node, const RuleFacts& facts) {
  const std::optional<bool> truth = truth_of(node.part(0, facts));
  return truth ? RuleValue(!*truth) : RuleValue(Unknown{});
}
RuleValue several(const Node& node, const RuleFacts& facts) {
  return std::ranges::count_if(node.parts,
                               [&](const Node& part) { return truth_of(part.value(facts)) == true; }) > 1;
}
RuleValue choice(const Node& node, const RuleFacts& facts) {
  const std::optional<bool> truth = truth_of(node.part(0, facts));
  const std::size_t chosen = truth == true ? 1 : 2;
  return truth && chosen < node.parts.size() ? node.part(chosen, facts) : RuleValue(Unknown{});
}
RuleValue fallback(const Node& node, const RuleFacts& facts) {
  RuleValue value = node.part(0, facts);
  return std::holds_alternative<Absent>(value) ? node.part(1, facts) : value;
}

// ---- comparisons

template <typename Compare>
RuleValue comparison(const Node& node, const RuleFacts& facts) {
  const RuleValue left = node.part(0, facts), right = node.part(1, facts);
  if (const std::string* other = std::get_if<std::string>(&right)) {
    const std::optional<std::string> value = text_of(left);
    return value ? RuleValue(Compare()(*value, *other)) : RuleValue(Unknown{});
  }
  const std::optional<double> value = number_of(left), other = number_of(right);
  return value && other ? RuleValue(Compare()(*value, *other)) : RuleValue(Unknown{});
}

/// The words of the right side, which are the whole of one text.
std::vector<std::string> choices(const RuleValue& right) {
  if (const std::string* one = std::get_if<std::string>(&right)) return {*one};
  return words_of(right);
}
bool is_among(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

RuleValue is_in(const Node& node, const RuleFacts& facts) {
  const std::optional<std::string> value = text_of(node.part(0, facts));
  return value ? RuleValue(is_among(choices(node.part(1, facts)), *value)) : RuleValue(Unknown{});
}
RuleValue has(const Node& node, const RuleFacts& facts) {
  const std::vector<std::string> sought = choices(node.part(1, facts));
  return std::ranges::any_of(words_of(node.part(0, facts)),
                             [&](const std::string& word) { return is_among(sought, word); });
}
RuleValue beyond(const Node& node, const RuleFacts& facts) {
  const std::vector<std::string> allowed = choices(node.part(1, facts));
  return !std::ranges::all_of(words_of(node.part(0, facts)),
                              [&](const std::string& word) { return is_among(allowed, word); });
}
RuleValue contains(const Node& node, const RuleFacts& facts) {
  const std::optional<std::string> value = text_of(node.part(0, facts));
  if (!value) return Unknown{};
  return value->find(*text_of(node.part(1, facts))) != std::string::npos;
}

// ---- numbers

bool is_whole(double number) {
  constexpr double kLargest = 9007199254740991;  // 2^53 - 1
  return std::abs(number) <= kLargest && number == std::floor(number);
}

/// Computes with two whole numbers. The result is not known if it is none.
template <double (*Operation)(double, double)>
RuleValue whole(const Node& node, const RuleFacts& facts) {
  const std::optional<double> left = number_of(node.part(0, facts)), right = number_of(node.part(1, facts));
  if (!left || !right || !is_whole(*left) || !is_whole(*right)) return Unknown{};
  const double result = Operation(*left, *right);
  return is_whole(result) ? RuleValue(result) : RuleValue(Unknown{});
}
double sum(double a, double b) { return a + b; }
double difference(double a, double b) { return a - b; }
double product(double a, double b) { return a * b; }
double quotient(double a, double b) { return std::floor(a / b); }
double remainder(double a, double b) { return std::fmod(a, b); }
double up_to_multiple(double a, double b) { return a >= 1 && b >= 1 ? std::ceil(a / b) * b : std::nan(""); }
RuleValue count(const Node& node, const RuleFacts& facts) {
  return static_cast<double>(words_of(node.part(0, facts)).size());
}
RuleValue is_number(const Node& node, const RuleFacts& facts) {
  return number_of(node.part(0, facts)).has_value();
}

/// Tells arguments as a refusal does, all of them or those that are given.
RuleValue told(const Node& node, const RuleFacts& facts) {
  std::string all;
  for (const Node& part : node.parts) all += (all.empty() ? "" : ", ") + facts.told(part.word.substr(2));
  return all;
}
RuleValue given(const Node& node, const RuleFacts& facts) {
  Node rest{told, "", node.parts};
  std::erase_if(rest.parts, [&](const Node& part) { return !facts.is_given(part.word.substr(2)); });
  return rest.value(facts);
}

}  // namespace operators

// ---- reading

using operators::Node;
using Functions = std::map<std::string_view, Node::Function>;

/// Operators between two parts, those that bind least first.
const std::vector<Functions>& levels() {
  static const std::vector<Functions> all = {
      {{"or", operators::one_of}},
      {{"and", operators::all_of}},
      {{"=", operators::comparison<std::equal_to<>>},
       {"!=", operators::comparison<std::not_equal_to<>>},
       {"<", operators::comparison<std::less<>>},
       {"<=", operators::comparison<std::less_equal<>>},
       {">", operators::comparison<std::greater<>>},
       {">=", operators::comparison<std::greater_equal<>>},
       {"in", operators::is_in},
       {"has", operators::has},
       {"beyond", operators::beyond},
       {"contains", operators::contains}},
      {{"+", operators::whole<operators::sum>}, {"-", operators::whole<operators::difference>}},
      {{"*", operators::whole<operators::product>},
       {"/", operators::whole<operators::quotient>},
       {"%", operators::whole<operators::remainder>}},
      {{"??", operators::fallback}}};
  return all;
}

const Functions& functions() {
  static const Functions all = {{"if", operators::choice},
                                {"several", operators::several},
                                {"count", operators::count},
                                {"is_number", operators::is_number},
                                {"up_to_multiple", operators::whole<operators::up_to_multiple>},
                                {"told", operators::told},
                                {"given", operators::given}};
  return all;
}

class ExpressionReader {
 public:
  explicit ExpressionReader(std::string_view text) : text_(text), rest_(text) { next(); }

  Node all() {
    Node node = level(0);
    require(token_.empty());
    return node;
  }

 private:
  void require(bool is_right) const {
    if (!is_right) sim::check_failed(std::string(text_).c_str(), __FILE__, __LINE__);
  }

  static bool is_of_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  }

  /// How many characters the first token of the rest has. A text has no sign at its end.
  std::size_t length_of_token() const {
    for (const std::string_view sign : {"??", "!=", "<=", ">="})
      if (rest_.starts_with(sign)) return sign.size();
    const bool is_argument = rest_.starts_with("--");
    std::size_t length = std::min<std::size_t>(1, rest_.size());
    if (!is_argument && !rest_.starts_with('$') && (rest_.empty() || !is_of_word(rest_.front())))
      return length;
    while (length < rest_.size() && (is_of_word(rest_[length]) || (is_argument && rest_[length] == '-')))
      ++length;
    return length;
  }

  void next() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    const bool is_text = rest_.starts_with('\'');
    const std::size_t length = is_text ? rest_.find('\'', 1) : length_of_token();
    require(length != std::string_view::npos);
    token_ = rest_.substr(0, length);
    rest_.remove_prefix(is_text ? length + 1 : length);
  }

  bool take(std::string_view token) {
    if (token_ != token) return false;
    next();
    return true;
  }

  Node level(std::size_t at) {
    constexpr std::size_t kComparisons = 2;
    if (at == levels().size()) return primary();
    if (at == kComparisons && take("not")) return {operators::negation, "", {level(at)}};
    Node left = level(at + 1);
    for (auto found = levels()[at].find(token_); found != levels()[at].end();
         found = levels()[at].find(token_)) {
      next();
      Node right = level(at + 1);
      left = {found->second, "", {std::move(left), std::move(right)}};
    }
    return left;
  }

  std::vector<Node> parts() {
    std::vector<Node> all;
    do all.push_back(level(0));
    while (take(","));
    require(take(")"));
    return all;
  }

  Node primary() {
    if (take("(")) {
      std::vector<Node> all = parts();
      return all.size() == 1 ? std::move(all.front()) : Node{operators::list, "", std::move(all)};
    }
    const std::string word(token_);
    require(!word.empty());
    next();
    if (const auto function = functions().find(word); function != functions().end() && take("("))
      return {function->second, "", parts()};
    if (word == "-") {
      const std::string digits(token_);
      next();
      return {operators::number, "-" + digits, {}};
    }
    if (word.starts_with('\'')) return {operators::text, word, {}};
    if (word.starts_with("--")) return {operators::argument, word, {}};
    if (word.starts_with('$')) return {operators::variable, word, {}};
    const bool is_number = std::isdigit(static_cast<unsigned char>(word.front())) != 0;
    require(is_number || std::isalpha(static_cast<unsigned char>(word.front())) != 0);
    return {is_number ? operators::number : operators::name, word, {}};
  }

  std::string_view text_, rest_, token_;
};

void add_leaves(const Node& node, std::vector<std::string>& leaves) {
  if (node.function == operators::argument || node.function == operators::variable ||
      node.function == operators::name)
    leaves.push_back(node.word);
  for (const Node& part : node.parts) add_leaves(part, leaves);
}

}  // namespace

Expression::Expression(std::string_view text) : root_(std::make_shared<Node>(ExpressionReader(text).all())) {}

RuleValue Expression::value(const RuleFacts& facts) const { return root_->value(facts); }

std::vector<std::string> Expression::leaves() const {
  std::vector<std::string> leaves;
  add_leaves(*root_, leaves);
  return leaves;
}

TextWithValues::TextWithValues(std::string_view text) {
  constexpr std::string_view kElse = " || ";
  for (bool is_last = false; !is_last;) {
    const std::size_t end = std::min(text.find(kElse), text.size());
    is_last = end == text.size();
    std::string_view rest = text.substr(0, end);
    text.remove_prefix(is_last ? end : end + kElse.size());
    Parts parts;
    for (std::size_t open = rest.find('{'); open != std::string_view::npos; open = rest.find('{')) {
      const std::size_t close = rest.find('}', open);
      SIM_CHECK(close != std::string_view::npos);
      parts.emplace_back(rest.substr(0, open), Expression(rest.substr(open + 1, close - open - 1)));
      rest.remove_prefix(close + 1);
    }
    parts.emplace_back(rest, std::nullopt);
    choices_.push_back(std::move(parts));
  }
}

std::string TextWithValues::filled(const RuleFacts& facts) const {
  std::string text;
  for (const Parts& parts : choices_) {
    text.clear();
    bool is_known = true;
    for (const auto& [before, expression] : parts) {
      text += before;
      if (!expression) continue;
      const RuleValue value = expression->value(facts);
      const bool is_there = truth_of(value).has_value() && !std::holds_alternative<Absent>(value);
      is_known = is_known && is_there;
      text += is_there ? sim::printable_text(*text_of(value)).substr(0, 200) : "none";
    }
    if (is_known) return text;
  }
  return text;
}

std::vector<Expression> TextWithValues::values() const {
  std::vector<Expression> all;
  for (const Parts& parts : choices_)
    for (const auto& [before, expression] : parts)
      if (expression) all.push_back(*expression);
  return all;
}

}  // namespace verify
