#include "verify/run_arguments/shell_values.h"

#include <algorithm>
#include <fmt/format.h>

#include "verify/output/refusal_table.h"

namespace verify {

namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20U;  // of all words, values and copies together
constexpr std::size_t kMostUnknowns = 100'000;
constexpr std::size_t kMostBytesOfMarks = std::size_t{1} << 16U;  // of a value that is partly known
constexpr std::size_t kMostSourceBytes = 400;                     // of what is shown of what is not known

/// Cuts a text that is shown to a reader. A value that is not known may hold others, twice as much each time.
std::string cut(std::string text) {
  if (text.size() <= kMostSourceBytes) return text;
  std::size_t end = kMostSourceBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // inside of a character
  return text.substr(0, end) + " ...";
}

/// Whether one of two is true; none where that is not known.
std::optional<bool> is_either(std::optional<bool> a, std::optional<bool> b) {
  if (a == true || b == true) return true;
  return a && b ? a : std::nullopt;
}

std::string reason_of_any(int line) {
  return fmt::format("line {} may assign it, in a way that is not followed", line);
}

ShellValuePointer pointer_to(ShellValue value) {
  return std::make_shared<const ShellValue>(std::move(value));
}

}  // namespace

void append_words(const ShellField& field, ShellFields& words) {
  for (std::size_t at = 0; (at = field.text.find_first_not_of(kShellBlanks, at)) != std::string::npos;) {
    const std::size_t end = std::min(field.text.find_first_of(kShellBlanks, at), field.text.size());
    words.push_back({field.text.substr(at, end - at), field.line});
    at = end;
  }
}

ShellValues::ShellValues(const RunVariables& set) {
  for (const auto& [name, text] : set) set_[name] = pointer_to({.fields = {{text, 0}}, .is_exported = true});
}

void ShellValues::charge(std::size_t bytes, int line) {
  bytes_ += bytes;
  if (line != 0) line_ = line;
  if (bytes_ > kMostBytes)
    refuse_by("run_file_size/values", place_of_line(line_), "words and values of more than 64 MiB in all");
}

std::string ShellValues::mark(std::string source, std::string variable, int line, std::string reason,
                              std::vector<std::string> appended) {
  if (unknowns_.size() == kMostUnknowns)
    refuse_by("run_file_size/values", place_of_line(line), "too many expansions that are not known");
  if (source.size() > kMostSourceBytes) appended.clear();
  unknowns_.push_back({.text = cut(std::move(source)),
                       .variable = std::move(variable),
                       .argument = {},
                       .line = line,
                       .reason = std::move(reason),
                       .appended = std::move(appended)});
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

std::string ShellValues::variable_of(const ShellFields& fields) const {
  for (const ShellField& field : fields)
    for (const Unresolved& unknown : unresolved(field.text))
      if (!unknown.variable.empty()) return unknown.variable;
  return "";
}

void ShellValues::need(const std::string& name, int line) {
  const std::string outside = name_outside(name);
  if (outside.empty() || std::ranges::find(needed_, outside, &Unresolved::variable) != needed_.end()) return;
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
  std::size_t bytes = sizeof(ShellValue);
  for (const ShellField& field : value.fields) bytes += field.text.size() + 1;
  const int line = value.fields.empty() ? 0 : value.fields.back().line;
  charge(bytes, line);
  if (bytes > kMostShellValueBytes)
    refuse_by("run_file_size/values", place_of_line(line), "a value of more than 1 MiB");
  if (value.fields.size() == 1 && value.fields.front().has_unknown()) {
    std::string& text = value.fields.front().text;
    if (text.size() > kMostBytesOfMarks)
      text = mark(shown(text), variable_of(value.fields), line, "it is long");
    const auto index = whole_number(std::string_view(text).substr(1, text.size() - 2));
    if (text.front() == kUnknownBegin && index &&
        unknowns_.at(static_cast<std::size_t>(*index)).variable.empty())
      unknowns_[static_cast<std::size_t>(*index)].variable = name;
  }
  ShellValuePointer& place = variables()[name];
  const bool is_set = value.kind != ShellValue::Kind::unset;
  if (is_set && place != nullptr) value.is_exported = is_either(value.is_exported, place->is_exported);
  if (is_set) value.is_exported = is_either(value.is_exported, state.exports_all);
  value.order = place != nullptr ? place->order : ++assigned_;
  place = pointer_to(std::move(value));
}

void ShellValues::define(const std::string& name, std::string text, int line) {
  if (!is_locked(name)) keep(name, {.fields = {{std::move(text), line}}});
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
  if (found == state.variables->end()) return;
  ShellValue value = *found->second;
  value.is_exported = true;
  keep(name, std::move(value));
}

ShellVariables ShellValues::kept(const std::vector<std::string>& names) const {
  ShellVariables values;
  for (const std::string& name : names) {
    const auto found = state.variables->find(name);
    values[name] = found == state.variables->end() ? nullptr : found->second;
  }
  return values;
}

void ShellValues::give_back(const ShellVariables& values) {
  for (const auto& [name, value] : values) {
    variables()[name] = value;
    if (value == nullptr) variables().erase(name);
  }
}

std::string ShellValues::name_outside(const std::string& name) const {
  const auto position = whole_number(name);
  if (!position || *position < 1) return name;
  const ShellArguments& arguments = state.calls.back().arguments;
  return arguments.shifted && !arguments.are_known ? fmt::format("{}", *position + *arguments.shifted) : "";
}

std::optional<ShellFields> ShellValues::given_arguments() const {
  const ShellArguments& arguments = state.calls.back().arguments;
  if (arguments.are_known) return arguments.fields;
  if (!arguments.shifted || !set_.contains("1")) return std::nullopt;
  ShellFields given;
  for (std::int64_t i = 1; set_.contains(fmt::format("{}", i)); ++i)
    if (i > *arguments.shifted) given.push_back(set_.at(fmt::format("{}", i))->fields.front());
  return given;
}

ShellValuePointer ShellValues::find(const std::string& name) {
  static const ShellValuePointer kUnset = pointer_to({.kind = ShellValue::Kind::unset});
  const auto unknown = [&](const std::string& variable, const std::string& reason) {
    return pointer_to({.fields = {{mark("$" + name, variable, line_, reason), line_}}});
  };
  const ShellArguments& arguments = state.calls.back().arguments;
  const auto position = whole_number(name);
  if (position && *position > 0 && arguments.are_known) {
    const auto end = arguments.fields.begin() + std::min(*position, std::ssize(arguments.fields));
    const bool is_placed = std::none_of(arguments.fields.begin(), end,
                                        [](const ShellField& field) { return field.may_be_many; });
    if (!is_placed) return unknown("", kNotAssigned);
    return *position > std::ssize(arguments.fields) ? kUnset : pointer_to({.fields = {*(end - 1)}});
  }
  const auto given = set_.find(name_outside(name));
  const auto value = state.variables->find(name);
  const bool has_value = value != state.variables->end();
  if (given != set_.end() && !(has_value && open_.contains(name))) return given->second;
  const bool may_be_any = state.line_of_any != 0 && !position && (!has_value || state.opaque.contains(name));
  if (may_be_any) return unknown(name, reason_of_any(state.line_of_any));
  if (has_value) return value->second;
  return state.own.contains(name) ? kUnset : nullptr;
}

void ShellValues::assign(const ShellAssignment& assignment) {
  const std::string& name = assignment.name;
  const auto opaque = state.opaque.find(name);
  if (is_locked(name)) return;
  if (opaque != state.opaque.end() && opaque->second) return forget_all(assignment.line);
  if (opaque != state.opaque.end())
    return forget(name, assignment.line, "`declare` gives it another meaning");
  if (assignment.index != nullptr) return assign_element(assignment);
  const bool is_array = assignment.is_array;
  ShellValue value{.kind = is_array ? ShellValue::Kind::array : ShellValue::Kind::text};
  value.fields = is_array ? expand(assignment.values)
                          : ShellFields{{whole(assignment.values.front()).text, assignment.line}};
  const auto place = state.variables->find(name);
  if (assignment.appends && place != state.variables->end() && !place->second->fields.empty()) {
    const ShellFields more = std::exchange(value.fields, place->second->fields);
    if (is_array) value.fields.insert(value.fields.end(), more.begin(), more.end());
    if (!is_array) value.fields.front().text += more.front().text;
    if (!is_array) value.kind = place->second->kind;
  }
  keep(name, std::move(value));
}

/// Follows NAME[index]=value. Where the index, or the array, is not known, no element is known any more.
void ShellValues::assign_element(const ShellAssignment& assignment) {
  const std::string& name = assignment.name;
  const auto place = state.variables->find(name);
  ShellValue value = place != state.variables->end() ? *place->second : ShellValue{};
  charge(value.fields.size() * sizeof(ShellField), assignment.line);
  const auto index = number_of(whole(*assignment.index).text, assignment.line);
  const bool is_known = index && *index >= 0 && *index <= std::ssize(value.fields) && !assignment.is_array &&
                        std::ranges::none_of(value.fields, &ShellField::may_be_many);
  if (!is_known) return forget(name, assignment.line, "not all indices of its elements are known");
  if (*index == std::ssize(value.fields)) value.fields.push_back({"", assignment.line});
  ShellField& field = value.fields[static_cast<std::size_t>(*index)];
  field.text = (assignment.appends ? field.text : "") + whole(assignment.values.front()).text;
  value.kind = ShellValue::Kind::array;
  keep(name, std::move(value));
}

}  // namespace verify
