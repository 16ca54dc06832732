#include "verify/run_arguments/shell_values.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/shell_arithmetic.h"

namespace verify {

namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20U;  // of all words, values and copies together
constexpr std::size_t kMostUnknowns = 100'000;
constexpr std::size_t kMostSourceBytes = 400;     // of what is shown of an expansion that is not known
constexpr std::int64_t kMostShifted = 1'000'000;  // arguments of a script

/// Cuts a text that is shown to a reader. A value that is not known may hold others, twice as much each time.
std::string cut(std::string text) {
  if (text.size() <= kMostSourceBytes) return text;
  std::size_t end = kMostSourceBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // inside of a character
  return text.substr(0, end) + " ...";
}

std::string reason_of_any(int line) {
  return fmt::format("line {} may assign it, in a way that is not followed", line);
}

bool may_be_several(const ShellField& field) { return field.may_be_many; }

}  // namespace

void ShellValues::refuse_size(int line, const char* what) {
  sim::refuse({.code = "run_file_size",
               .option = fmt::format("line {}", line),
               .numbers = what,
               .rule = "the values of a launch script are short",
               .hint = "the command line alone"});
}

ShellValues::ShellValues(const RunVariables& set) {
  for (const auto& [name, text] : set)
    set_[name] = std::make_shared<const ShellValue>(ShellValue{.fields = {{text, 0}}, .is_exported = true});
}

void ShellValues::charge(std::size_t bytes, int line) {
  bytes_ += bytes;
  if (line != 0) line_ = line;
  if (bytes_ > kMostBytes) refuse_size(line_, "words and values of more than 64 MiB in all");
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

std::vector<Unresolved> ShellValues::unresolved(std::string_view text) const {
  std::vector<Unresolved> found;
  for (std::size_t at = 0; (at = text.find(kUnknownBegin, at)) != std::string_view::npos; ++at) {
    const auto index = whole_number(text.substr(at + 1, text.find(kUnknownEnd, at) - at - 1));
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
    const std::size_t end = text.find(kUnknownEnd, begin);
    if (end == std::string_view::npos) break;
    for (const Unresolved& unknown : unresolved(text.substr(begin, end + 1 - begin))) result += unknown.text;
    text.remove_prefix(end + 1);
  }
  return result;
}

std::string ShellValues::variable_of(std::string_view text) const {
  for (const Unresolved& unknown : unresolved(text))
    if (!unknown.variable.empty()) return unknown.variable;
  return "";
}

std::string ShellValues::variable_of(const ShellFields& fields) const {
  std::string variable;
  for (const ShellField& field : fields)
    if (variable.empty()) variable = variable_of(field.text);
  return variable;
}

void ShellValues::need(const std::string& name, int line) {
  const std::string outside = name_outside(name);
  const bool is_new = std::ranges::find(needed_, outside, &Unresolved::variable) == needed_.end();
  if (!is_new || outside.empty()) return;
  needed_.push_back({.text = "$" + name,
                     .variable = outside,
                     .argument = {},
                     .line = line,
                     .reason = "the script ends before its training without it"});
}

/// Returns the variables of the state to change them.
ShellVariables& ShellValues::variables() {
  constexpr std::size_t kBytesOfEntry = 32;
  if (state.variables.use_count() > 1) {
    charge(state.variables->size() * kBytesOfEntry, 0);
    state.variables = std::make_shared<ShellVariables>(*state.variables);
  }
  return *state.variables;
}

/// Gives a variable a value. A value that is not known as a whole is asked for by the name of the variable.
void ShellValues::keep(const std::string& name, ShellValue value) {
  std::size_t bytes = 0;
  for (const ShellField& field : value.fields) bytes += field.text.size() + 1;
  const int line = value.fields.empty() ? 0 : value.fields.back().line;
  if (bytes > kMostShellValueBytes) refuse_size(line, "a value of more than 1 MiB");
  charge(bytes + sizeof(ShellValue), line);
  constexpr std::size_t kMostBytesOfMarks = std::size_t{1} << 16U;
  if (bytes > kMostBytesOfMarks && value.kind == ShellValue::Kind::text && value.fields.front().has_unknown())
    value.fields.front().text =
        mark(cut(shown(value.fields.front().text)), variable_of(value.fields), line, "it is long");
  const std::string text = value.fields.size() == 1 ? value.fields.front().text : "";
  const bool is_whole = text.starts_with(kUnknownBegin) && text.find(kUnknownEnd) + 1 == text.size();
  const auto index = is_whole ? whole_number(text.substr(1, text.size() - 2)) : std::nullopt;
  if (index && unknowns_.at(static_cast<std::size_t>(*index)).variable.empty())
    unknowns_[static_cast<std::size_t>(*index)].variable = name;
  std::shared_ptr<const ShellValue>& place = variables()[name];
  value.is_exported = value.is_exported || state.exports_all || (place != nullptr && place->is_exported);
  value.order = place != nullptr ? place->order : ++assigned_;
  place = std::make_shared<const ShellValue>(std::move(value));
}

void ShellValues::define(const std::string& name, std::string text, int line) {
  if (is_locked(name)) return;
  keep(name, {.fields = {{std::move(text), line}}});
}

void ShellValues::unset(const std::string& name) {
  keep(name, {.kind = ShellValue::Kind::unset});
  std::shared_ptr<const ShellValue>& place = variables()[name];
  ShellValue value = *place;
  value.is_exported = false;
  place = std::make_shared<const ShellValue>(std::move(value));
}

void ShellValues::open(const std::string& name) {
  const auto value = set_.find(name);
  if (value != set_.end() && value->second->fields.front().text.empty()) open_.insert(name);
}

void ShellValues::forget(const std::string& name, int line, const std::string& reason) {
  keep(name, {.fields = {{mark("${" + name + "}", name, line, reason), line, true}}});
}

void ShellValues::forget_all(int line) {
  state.line_of_any = line;
  const std::shared_ptr<ShellVariables> all = state.variables;
  for (const auto& [name, value] : *all) forget(name, line, reason_of_any(line));
}

void ShellValues::export_variable(const std::string& name) {
  const auto found = state.variables->find(name);
  if (found == state.variables->end() || found->second->is_exported) return;
  ShellValue value = *found->second;
  value.is_exported = true;
  keep(name, std::move(value));
}

void ShellValues::hide(const std::string& name) {
  const auto found = state.variables->find(name);
  const bool is_there = found != state.variables->end();
  if (state.calls.size() > 1) state.calls.back().outer.try_emplace(name, is_there ? found->second : nullptr);
}

void ShellValues::end_call() {
  give_back(state.calls.back().outer);
  state.calls.pop_back();
}

void ShellValues::give_back(const ShellVariables& values) {
  for (const auto& [name, value] : values) {
    if (value == nullptr) variables().erase(name);
    if (value != nullptr) variables()[name] = value;
  }
}

void ShellValues::leave_exported(bool is_elsewhere) {
  std::erase_if(variables(), [&](const auto& entry) { return is_elsewhere || !entry.second->is_exported; });
}

void ShellValues::shift(std::optional<std::int64_t> count) {
  ShellArguments& arguments = state.calls.back().arguments;
  const bool is_placed =
      count && *count >= 0 && *count <= std::ssize(arguments.fields) &&
      std::none_of(arguments.fields.begin(), arguments.fields.begin() + *count, may_be_several);
  if (arguments.are_known && is_placed) {
    arguments.fields.erase(arguments.fields.begin(), arguments.fields.begin() + *count);
  } else if (!arguments.are_known && count && *count >= 0 && arguments.shifted) {
    arguments.shifted = std::min(*arguments.shifted + std::min(*count, kMostShifted), kMostShifted);
  } else if (!arguments.are_known || !count || std::ranges::any_of(arguments.fields, may_be_several)) {
    arguments = {.shifted = std::nullopt, .name = arguments.name};
  }
}

/// Returns the name that --set has for a variable: an argument of the script has another number before a
/// `shift`, and none behind one that may not run.
std::string ShellValues::name_outside(const std::string& name) const {
  const auto position = whole_number(name);
  if (!position || *position < 1 || *position > kMostShifted) return name;
  const ShellArguments& arguments = state.calls.back().arguments;
  return arguments.shifted && !arguments.are_known ? fmt::format("{}", *position + *arguments.shifted) : "";
}

std::shared_ptr<const ShellValue> ShellValues::find(const std::string& name) {
  const ShellArguments& arguments = state.calls.back().arguments;
  const auto position = whole_number(name);
  if (position && *position > 0 && arguments.are_known) {
    const std::int64_t end = std::min(*position, std::ssize(arguments.fields));
    const bool is_placed =
        std::none_of(arguments.fields.begin(), arguments.fields.begin() + end, may_be_several);
    if (!is_placed)
      return std::make_shared<const ShellValue>(
          ShellValue{.fields = {{mark("$" + name, "", arguments.fields.front().line, kNotAssigned), 0}}});
    if (*position > end)
      return std::make_shared<const ShellValue>(ShellValue{.kind = ShellValue::Kind::unset});
    return std::make_shared<const ShellValue>(
        ShellValue{.fields = {arguments.fields[static_cast<std::size_t>(end) - 1]}});
  }
  const auto given = set_.find(name_outside(name));
  const auto value = state.variables->find(name);
  const bool has_value = value != state.variables->end();
  if (given != set_.end() && !(has_value && open_.contains(name))) return given->second;
  const bool may_be_any = state.line_of_any != 0 && !position;
  if (may_be_any && (!has_value || state.references.contains(name)))
    return std::make_shared<const ShellValue>(ShellValue{
        .fields = {{mark("$" + name, name, state.line_of_any, reason_of_any(state.line_of_any)), 0}}});
  if (has_value) return value->second;
  static const auto kUnset = std::make_shared<const ShellValue>(ShellValue{.kind = ShellValue::Kind::unset});
  return state.own.contains(name) ? kUnset : nullptr;
}

std::optional<std::int64_t> ShellValues::number_of(const std::string& expression, int line) {
  asked_ = variable_of(expression);
  return shell_arithmetic(expression, {.value = [&](const std::string& name) -> std::optional<std::string> {
                                         const auto value = find(name);
                                         if (value == nullptr && asked_.empty()) asked_ = name_outside(name);
                                         if (value == nullptr) return std::nullopt;
                                         if (value->fields.empty()) return "";
                                         if (asked_.empty()) asked_ = variable_of(value->fields.front().text);
                                         return value->fields.front().text;
                                       },
                                       .assign =
                                           [&](const std::string& name, std::optional<std::int64_t> number) {
                                             if (number)
                                               return define(name, fmt::format("{}", *number), line);
                                             if (!is_locked(name))
                                               forget(name, line, "it is assigned by arithmetic");
                                           }});
}

void ShellValues::assign(const ShellAssignment& assignment) {
  const std::string& name = assignment.name;
  if (state.references.contains(name)) return forget_all(assignment.line);
  if (is_locked(name)) return;
  if (assignment.index != nullptr) return assign_element(assignment);
  ShellValue value;
  if (assignment.is_array) {
    value.kind = ShellValue::Kind::array;
    value.fields = expand(assignment.values);
  } else {
    value.fields = {{joined(assignment.values.front()), assignment.line}};
  }
  const auto place = state.variables->find(name);
  const std::shared_ptr<const ShellValue> old = place != state.variables->end() ? place->second : nullptr;
  if (old != nullptr && old->kind == ShellValue::Kind::table) {
    if (!assignment.is_array || !value.fields.empty())
      return forget(name, assignment.line, "its keys are not all known");
    value = assignment.appends ? *old : ShellValue{.kind = ShellValue::Kind::table};
  } else if (assignment.appends && old != nullptr && assignment.is_array) {
    value.fields.insert(value.fields.begin(), old->fields.begin(), old->fields.end());
  } else if (assignment.appends && old != nullptr && !old->fields.empty()) {
    const std::string more = value.fields.front().text;
    value = *old;
    value.fields.front().text += state.integers.contains(name) ? "+(" + more + ")" : more;
  }
  if (state.integers.contains(name) && !value.fields.empty()) {
    const auto number = number_of(value.fields.front().text, assignment.line);
    if (!number) return forget(name, assignment.line, "it is computed");
    value.fields.front().text = fmt::format("{}", *number);
  }
  keep(name, std::move(value));
}

/// Follows NAME[key]=value. Where the key, or the array, is not known, no element is known any more.
void ShellValues::assign_element(const ShellAssignment& assignment) {
  const std::string key = joined(*assignment.index);
  const std::string text = assignment.is_array ? "" : joined(assignment.values.front());
  const auto place = state.variables->find(assignment.name);
  ShellValue value = place != state.variables->end() ? *place->second : ShellValue{};
  charge(value.fields.size() * sizeof(ShellField), assignment.line);
  std::ptrdiff_t at = 0;
  bool is_new = false;
  bool is_known = !assignment.is_array && key.find(kUnknownBegin) == std::string::npos;
  if (value.kind == ShellValue::Kind::table) {
    const auto found = std::ranges::lower_bound(value.keys, key);
    at = found - value.keys.begin();
    is_new = found == value.keys.end() || *found != key;
    if (is_new && is_known) value.keys.insert(found, key);
  } else {
    const auto index = is_known ? number_of(key, assignment.line) : std::nullopt;
    is_known = index && *index >= 0 && *index <= std::ssize(value.fields) &&
               std::ranges::none_of(value.fields, may_be_several);
    at = index.value_or(0);
    is_new = at == std::ssize(value.fields);
    value.kind = ShellValue::Kind::array;
  }
  if (!is_known) return forget(assignment.name, assignment.line, "not all indices of its elements are known");
  if (is_new) value.fields.insert(value.fields.begin() + at, {"", assignment.line});
  ShellField& field = value.fields[static_cast<std::size_t>(at)];
  field.text = (assignment.appends ? field.text : "") + text;
  keep(assignment.name, std::move(value));
}

}  // namespace verify
