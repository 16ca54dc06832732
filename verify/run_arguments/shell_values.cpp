#include "verify/run_arguments/shell_values.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <sstream>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/shell_arithmetic.h"

namespace verify {

namespace {

constexpr std::size_t kMostExpandedBytes = std::size_t{64} << 20U;  // of all words and values together
constexpr std::size_t kMostUnknowns = 100'000;
constexpr std::size_t kMostSourceBytes = 400;      // of what is shown of an expansion that is not known
constexpr std::string_view kSeparators = ";|&<>";  // they end a word of a command
constexpr std::size_t kMostShifted = 1'000'000;    // arguments of a script

std::string reason_of_branch(const char* done, const std::string& asked) {
  return fmt::format("it is {} in a branch{}", done,
                     asked.empty() ? "" : fmt::format(" that depends on ${}", asked));
}

/// Cuts a text that is shown to a reader. A value that is not known may hold others, twice as much each time.
std::string cut(std::string text) {
  if (text.size() <= kMostSourceBytes) return text;
  std::size_t end = kMostSourceBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // inside of a character
  return text.substr(0, end) + " ...";
}

std::vector<std::string> words_in_text(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

void ShellValues::refuse_size(int line, const char* what) {
  sim::refuse({.code = "run_file_size",
               .option = fmt::format("line {}", line),
               .numbers = what,
               .rule = "the values of a launch script are short",
               .hint = "the command line alone"});
}

ShellValues::ShellValues(const RunVariables& set) {
  for (const auto& [name, value] : set) set_[name] = {{value, 0}};
  values_["IFS"] = {{" \t\n", 0}};
}

std::string ShellValues::mark(std::string source, std::string variable, int line, std::string reason) {
  if (unknowns_.size() == kMostUnknowns) refuse_size(line, "too many expansions that are not known");
  unknowns_.push_back({.text = cut(std::move(source)),
                       .variable = std::move(variable),
                       .argument = {},
                       .line = line,
                       .reason = std::move(reason)});
  return fmt::format("{}{}{}", kUnknownBegin, unknowns_.size() - 1, kUnknownEnd);
}

void ShellValues::define(const std::string& name, std::string value, int line) {
  define(name, {{std::move(value), line}});
}

void ShellValues::define(const std::string& name_or_reference, Fields fields) {
  const std::string name = referred(name_or_reference);
  if (name.empty()) return forget_all(fields.empty() ? 0 : fields.front().line);
  if (!values_.contains(name)) order_.push_back(name);
  values_[name] = std::move(fields);
}

void ShellValues::forget(const std::string& name_or_reference, int line, const std::string& reason) {
  const std::string name = referred(name_or_reference);
  if (name.empty()) return forget_all(line);
  tables_.erase(name);
  define(name, mark("${" + name + "}", name, line, reason), line);
  values_[name].front().may_be_many = true;
}

/// Follows a change of the variable that a reference stands for, where nobody knows which one it is.
void ShellValues::forget_all(int line) {
  const std::string reason = fmt::format("line {} may assign it, by another name", line);
  const std::vector<std::string> names = order_;
  for (const std::string& name : names) {
    if (!referred(name).empty()) forget(name, line, reason);
  }
}

ShellValues::Fields ShellValues::fields_of(const ShellAssignment& assignment) {
  Fields fields;
  for (const ShellWord& word : assignment.values) {
    const Fields expanded = assignment.is_array ? expand(word) : Fields{{joined(word), assignment.line}};
    fields.insert(fields.end(), expanded.begin(), expanded.end());
  }
  return fields;
}

std::optional<ShellValues::Fields> ShellValues::kept(const std::string& name, int line) {
  const auto value = values_.find(name);
  if (value == values_.end()) return std::nullopt;
  for (const ShellField& field : value->second) charge(field.text.size() + sizeof(ShellField), line);
  return value->second;
}

void ShellValues::unset(const std::string& name_or_reference, int line) {
  const std::string name = referred(name_or_reference);
  if (name.empty()) return forget_all(line);
  tables_.erase(name);
  if (!set_.contains(name)) give_back(name, std::nullopt);
}

ShellValues::Scope ShellValues::scope(int line) {
  for (const auto& [name, value] : values_) {
    for (const ShellField& field : value) charge(field.text.size() + sizeof(ShellField), line);
  }
  for (const auto& [name, table] : tables_) charge((table.size() + 1) * sizeof(ShellField), line);
  for (const Call& call : calls_)
    charge((call.arguments.size() + call.outer.size() + 1) * sizeof(ShellField), line);
  if (arguments_) charge(arguments_->size() * sizeof(ShellField), line);
  return {values_, order_, tables_, references_, calls_, arguments_, shifted_};
}

void ShellValues::leave(Scope before) {
  values_ = std::move(before.values);
  order_ = std::move(before.order);
  tables_ = std::move(before.tables);
  references_ = std::move(before.references);
  calls_ = std::move(before.calls);
  arguments_ = std::move(before.arguments);
  shifted_ = before.shifted;
  first_of_arguments_ = unknowns_.size();
}

void ShellValues::give_back(const std::string& name, std::optional<Fields> value) {
  if (value) {
    values_[name] = std::move(*value);
  } else {
    values_.erase(name);
    const auto newest = std::find(order_.rbegin(), order_.rend(), name);
    if (newest != order_.rend()) order_.erase(newest.base() - 1);
  }
}

ShellValues::Commands ShellValues::function(const std::string& name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : found->second;
}

void ShellValues::begin_call(const Fields& arguments) {
  const Unresolved* all = arguments.size() == 1 ? whole_unknown(arguments.front().text) : nullptr;
  const bool is_present =
      all != nullptr && all >= unknowns_.data() + static_cast<std::ptrdiff_t>(first_of_arguments_);
  calls_.emplace_back();
  calls_.back().references = references_;
  calls_.back().hands_on = is_present && (all->text == "$@" || all->text == "${@}");
  if (calls_.back().hands_on) return;
  first_of_arguments_ = unknowns_.size();
  for (const ShellField& argument : arguments) calls_.back().arguments.push_back({argument});
}

void ShellValues::end_call() {
  for (auto& [name, value] : calls_.back().outer) give_back(name, std::move(value));
  references_ = std::move(calls_.back().references);
  calls_.pop_back();
  first_of_arguments_ = unknowns_.size();
}

void ShellValues::set_arguments(std::optional<Fields> given, int line) {
  Fields arguments =
      given ? std::move(*given) : Fields{{mark("$@", "", line, "they may have been set"), line, true}};
  first_of_arguments_ = unknowns_.size();
  std::vector<Fields> each;
  for (ShellField& argument : arguments) each.push_back({std::move(argument)});
  if (calls_.empty()) {
    arguments_ = std::move(each);
  } else {
    calls_.back().arguments = std::move(each);
    calls_.back().hands_on = false;
  }
}

const std::vector<ShellValues::Fields>* ShellValues::arguments(std::size_t& shifted) const {
  for (auto call = calls_.rbegin(); call != calls_.rend(); ++call) {
    if (!call->hands_on) return &call->arguments;
    shifted += call->shifted;
  }
  return arguments_ ? &*arguments_ : nullptr;
}

std::string ShellValues::referred(const std::string& name) const {
  std::string found = name;
  for (std::size_t i = 0; i <= references_.size(); ++i) {
    const auto reference = references_.find(found);
    if (reference == references_.end() || reference->second == found) break;
    found = reference->second;
  }
  const auto subscript = found.find('[');
  return subscript == std::string::npos ? found : "";  // of an element, which is not followed
}

void ShellValues::shift(std::optional<std::size_t> count, int line) {
  first_of_arguments_ = unknowns_.size();
  const bool is_handed_on = !calls_.empty() && calls_.back().hands_on;
  if (is_handed_on && count) {
    calls_.back().shifted += std::min(*count, kMostShifted);
    return;
  }
  if (is_handed_on) {
    set_arguments(std::nullopt, line);
    return;
  }
  if (calls_.empty() && !arguments_) {
    if (shifted_ && count) *shifted_ += static_cast<std::int64_t>(std::min(*count, kMostShifted));
    if (!count) shifted_ = std::nullopt;
    return;
  }
  std::vector<Fields>& arguments = calls_.empty() ? *arguments_ : calls_.back().arguments;
  const auto first_open =
      std::ranges::find_if(arguments, [](const Fields& argument) { return argument.front().may_be_many; });
  const auto known_ones = static_cast<std::size_t>(first_open - arguments.begin());
  if (count && (*count <= known_ones || first_open == arguments.end())) {
    const std::size_t dropped = std::min(*count, arguments.size());
    arguments.erase(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(dropped));
    return;
  }
  for (Fields& argument : arguments)
    argument = {{mark("$1", "", line, "the arguments of the function may have been shifted"), line, true}};
}

/// Remembers the value that a variable has outside of the function whose local variable it becomes.
void ShellValues::keep_outer(const ShellAssignment& assignment) {
  if (!assignment.is_local || calls_.empty()) return;
  calls_.back().outer.try_emplace(assignment.name, kept(assignment.name, assignment.line));
}

const Unresolved* ShellValues::whole_unknown(std::string_view text) const {
  if (!text.starts_with(kUnknownBegin) || text.find(kUnknownEnd) != text.size() - 1) return nullptr;
  const auto index = whole_number(text.substr(1, text.size() - 2));
  return index ? &unknowns_.at(static_cast<std::size_t>(*index)) : nullptr;
}

bool ShellValues::is_given_nothing(const std::string& name) const {
  const Fields* value = known(name);
  if (value == nullptr) return true;
  const Unresolved* unknown = value->size() == 1 ? whole_unknown(value->front().text) : nullptr;
  return unknown != nullptr && unknown->reason == kNotAssigned;
}

/// Follows NAME[key]=value. Where the key, or the array, is not known, no element is known any more.
void ShellValues::assign_element(const ShellAssignment& assignment) {
  if (set_.contains(assignment.name)) return;
  const std::string key = joined(*assignment.key);
  const bool is_one = !assignment.is_array && assignment.values.size() == 1;
  const std::string value = is_one ? joined(assignment.values.front()) : "";
  const auto table = tables_.find(assignment.name);
  if (table != tables_.end() && is_one && key.find(kUnknownBegin) == std::string::npos) {
    std::string& element = table->second[key];
    element = (assignment.appends ? element : "") + value;
    return charge(element.size() + key.size(), assignment.line);
  }
  const auto index = table == tables_.end() ? index_of(key) : std::nullopt;
  Fields* fields = index && is_one ? list(assignment.name) : nullptr;
  if (fields == nullptr || *index > std::ssize(*fields))
    return forget(assignment.name, assignment.line, "not all indices of its elements are known");
  if (*index == std::ssize(*fields)) fields->push_back({"", assignment.line});
  ShellField& element = (*fields)[static_cast<std::size_t>(*index)];
  element.text = (assignment.appends ? element.text : "") + value;
  charge(element.text.size() + sizeof(ShellField), assignment.line);
}

/// Returns the elements of an array to change one of them; null where one is not known. A variable that is
/// not assigned becomes an array without elements.
ShellValues::Fields* ShellValues::list(const std::string& name) {
  if (!values_.contains(name)) {
    order_.push_back(name);
    return &values_[name];
  }
  Fields& fields = values_[name];
  const auto is_open = [](const ShellField& field) { return field.has_unknown() || field.may_be_many; };
  return std::ranges::any_of(fields, is_open) ? nullptr : &fields;
}

/// Returns the number that a key of an array says, or arithmetic; none where it is not known.
std::optional<std::int64_t> ShellValues::index_or_negative(const std::string& key) const {
  return shell_arithmetic(key, [&](const std::string& name) {
    const Fields* value = known(name);
    const bool is_there = value != nullptr && !value->empty();
    return is_there ? std::optional(value->front().text) : std::nullopt;
  });
}

/// Returns the index that a key of an array says; none where it is not known, or counts from the end.
std::optional<std::int64_t> ShellValues::index_of(const std::string& key) const {
  const auto index = index_or_negative(key);
  return index && *index >= 0 ? index : std::nullopt;
}

/// Follows the assignment of an associative array as a whole. Its elements are assignments of their own.
bool ShellValues::assigns_table(const ShellAssignment& assignment) {
  const bool is_declared = assignment.is_associative && !(assignment.is_local && !calls_.empty());
  if (is_declared && !values_.contains(assignment.name)) tables_.try_emplace(assignment.name);
  const auto table = tables_.find(assignment.name);
  if (table == tables_.end()) return false;
  if (!assignment.is_array || !assignment.values.empty()) {
    forget(assignment.name, assignment.line, "its keys are not all known");
  } else if (!assignment.appends) {
    table->second.clear();
  }
  return true;
}

void ShellValues::charge(std::size_t bytes, int line) {
  expanded_bytes_ += bytes;
  if (expanded_bytes_ > kMostExpandedBytes) refuse_size(line, "words and values of more than 64 MiB in all");
}

void ShellValues::assign(const ShellAssignment& assignment) {
  if (assignment.is_reference && assignment.key == nullptr) {
    const std::string name = assignment.values.size() == 1 ? joined(assignment.values.front()) : "";
    references_[assignment.name] = name.find(kUnknownBegin) == std::string::npos ? name : "";
    return;
  }
  if (const std::string name = referred(assignment.name); name != assignment.name) {
    if (name.empty()) return forget_all(assignment.line);
    ShellAssignment other = assignment;
    other.name = name;
    return assign(other);
  }
  if (assignment.key != nullptr) return assign_element(assignment);
  if (assigns_table(assignment)) return;
  Fields fields = fields_of(assignment);
  keep_outer(assignment);
  const bool is_one = !assignment.is_array && !assignment.appends && fields.size() == 1;
  const Unresolved* unknown = is_one ? whole_unknown(fields.front().text) : nullptr;
  // A variable that has the output of a command is the one to set.
  if (unknown != nullptr && unknown->variable.empty())
    unknowns_[static_cast<std::size_t>(unknown - unknowns_.data())].variable = assignment.name;
  keep(assignment, std::move(fields));
}

/// Keeps the value of a variable, with what an assignment that may run puts behind or before it. Returns
/// whether the assignment is of this form.
bool ShellValues::keep_with_more(const ShellAssignment& assignment, const std::string& asked,
                                 const Fields& fields) {
  const Fields* value = known(assignment.name);
  if (assignment.is_array || fields.size() != 1 || value == nullptr || value->size() != 1) return false;
  const std::string before = value->front().text;
  std::string_view more = fields.front().text;
  const bool is_behind = assignment.appends || more.starts_with(before);
  if (before.empty() || (!is_behind && !more.ends_with(before))) return false;
  if (!assignment.appends) {
    if (is_behind) more.remove_prefix(before.size());
    if (!is_behind) more.remove_suffix(before.size());
  }
  const std::size_t begin = std::min(more.find_first_not_of(kShellBlanks), more.size());
  const std::size_t end = more.find_last_not_of(kShellBlanks) + 1;
  if (begin == more.size()) return true;
  const bool is_apart = begin > 0 || kSeparators.find(more[begin]) != std::string_view::npos;
  // A value of one word is one to set; arguments have others beside them.
  const bool is_word = asked.empty() && before.find_first_of(kShellBlanks) == std::string::npos;
  const std::string marked =
      mark(fmt::format("{}+={}", assignment.name, shown(more.substr(begin, end - begin))),
           is_word ? assignment.name : asked, assignment.line, reason_of_branch("appended", asked));
  const std::string text = (is_apart ? " " : "") + marked + (end < more.size() ? " " : "");
  unknowns_.back().appended = words_in_text(shown(more.substr(begin, end - begin)));
  keep({.name = assignment.name, .line = assignment.line},
       {{is_behind ? before + text : text + before, assignment.line}});
  return true;
}

void ShellValues::leave_unassigned(const ShellAssignment& assignment) {
  const bool gives_arguments = std::ranges::any_of(assignment.values, [](const ShellWord& word) {
    return std::ranges::any_of(word.parts, [](const ShellPart& part) {
      return part.kind == ShellPart::Kind::literal && part.text.find("--") != std::string::npos;
    });
  });
  if (gives_arguments && assignment.key == nullptr) left_unassigned_.insert(assignment.name);
}

void ShellValues::assign_perhaps(const ShellAssignment& assignment, const std::string& asked) {
  if (assignment.is_reference && assignment.key == nullptr) {
    references_[assignment.name] = "";
    return;
  }
  if (const std::string name = referred(assignment.name); name != assignment.name) {
    if (name.empty()) return forget_all(assignment.line);
    ShellAssignment other = assignment;
    other.name = name;
    return assign_perhaps(other, asked);
  }
  if (assignment.key != nullptr || tables_.contains(assignment.name))
    return forget(assignment.name, assignment.line, reason_of_branch("assigned", asked));
  const Fields fields = fields_of(assignment);
  keep_outer(assignment);
  if (keep_with_more(assignment, asked, fields)) return;
  std::string text;
  for (const ShellField& field : fields) {
    text += (text.empty() ? "" : " ") + shown(field.text);
    if (text.size() > kMostSourceBytes) break;
  }
  const std::string& name = assignment.name;
  const bool extends = assignment.appends && assignment.is_array;
  const std::string source = fmt::format("{}{}={}", name, assignment.appends ? "+" : "", text);
  const std::string reason = reason_of_branch(extends ? "appended" : "assigned", asked);
  const std::string variable = asked.empty() && !extends ? name : asked;
  const std::string marked = mark(source, variable, assignment.line, reason);
  for (const ShellField& field : fields)
    if (extends) unknowns_.back().appended.push_back(shown(field.text));
  if (extends) return keep(assignment, {{marked, assignment.line, true}});
  define(name, marked, assignment.line);
  values_[name].front().may_be_many = true;
}

/// Gives a variable these fields, or appends them.
void ShellValues::keep(const ShellAssignment& assignment, Fields fields) {
  const std::string& name = assignment.name;
  if (!values_.contains(name)) order_.push_back(name);
  Fields& value = values_[name];
  if (!assignment.appends) {
    value = std::move(fields);
  } else if (assignment.is_array) {
    value.insert(value.end(), fields.begin(), fields.end());
  } else if (value.empty()) {
    value = std::move(fields);
  } else {
    value.front().text += fields.front().text;
  }
  std::size_t bytes = 0;
  for (const ShellField& field : value) bytes += field.text.size() + 1;
  if (bytes > kMostShellValueBytes) refuse_size(assignment.line, "a value of more than 1 MiB");
}

/// Returns the name that --set has for a variable: an argument of the script has another number before a
/// `shift`, and none behind one that may not run.
std::string ShellValues::given_name(const std::string& name) const {
  const auto position = whole_number(name);
  if (!position || *position < 1 || *position > std::int64_t{kMostShifted}) return name;
  std::size_t handed_on = 0;
  if (arguments(handed_on) != nullptr || !shifted_) return "";
  return fmt::format("{}", *position + *shifted_ + static_cast<std::int64_t>(handed_on));
}

const ShellValues::Fields* ShellValues::known(const std::string& name) const {
  const auto position = whole_number(name);
  if (position && *position > 0) {
    std::size_t index = static_cast<std::size_t>(*position) - 1;
    if (const std::vector<Fields>* const all = arguments(index)) {
      static const Fields kNone;
      const auto end = all->begin() + static_cast<std::ptrdiff_t>(std::min(index + 1, all->size()));
      const bool is_placed = std::none_of(
          all->begin(), end, [](const Fields& argument) { return argument.front().may_be_many; });
      if (!is_placed) return nullptr;
      return index < all->size() ? &(*all)[index] : &kNone;
    }
  }
  if (const auto given = set_.find(given_name(name)); given != set_.end()) return &given->second;
  if (const auto value = values_.find(referred(name)); value != values_.end()) return &value->second;
  return nullptr;
}

std::string ShellValues::first_variable(const Fields& words) const {
  const std::vector<std::string> variables = unknown_variables(words);
  return variables.empty() ? "" : variables.front();
}

std::vector<std::string> ShellValues::unknown_variables(const std::vector<ShellField>& words) const {
  std::vector<std::string> variables;
  for (const ShellField& field : words) {
    for (const Unresolved& unknown : unresolved(field.text)) {
      if (!unknown.variable.empty()) variables.push_back(unknown.variable);
    }
  }
  return variables;
}

std::vector<Unresolved> ShellValues::unresolved(std::string_view text) const {
  std::vector<Unresolved> found;
  for (std::size_t at = text.find(kUnknownBegin); at != std::string_view::npos;
       at = text.find(kUnknownBegin, at + 1)) {
    const std::size_t end = text.find(kUnknownEnd, at);
    if (end == std::string_view::npos) break;
    const auto index = whole_number(text.substr(at + 1, end - at - 1));
    if (index && *index >= 0 && *index < std::ssize(unknowns_))
      found.push_back(unknowns_[static_cast<std::size_t>(*index)]);
  }
  return found;
}

std::string ShellValues::shown(std::string_view text) const {
  std::string result;
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find(kUnknownBegin), text.size());
    result += text.substr(0, begin);
    if (begin == text.size()) break;
    const std::size_t end = text.find(kUnknownEnd, begin);
    if (end == std::string_view::npos) break;
    const std::vector<Unresolved> unknown = unresolved(text.substr(begin, end + 1 - begin));
    if (!unknown.empty()) result += unknown.front().text;
    text.remove_prefix(end + 1);
  }
  return result;
}

}  // namespace verify
