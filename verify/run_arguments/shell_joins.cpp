// One state of those in which branches have ended: what is not the same in all of them is not known.

#include <algorithm>
#include <fmt/format.h>
#include <span>

#include "verify/run_arguments/shell_values.h"

namespace verify {

namespace {

using ValueKind = ShellValue::Kind;

bool are_equal(const ShellValue* a, const ShellValue* b) {
  if (a == nullptr || b == nullptr || a == b) return a == b;
  return a->kind == b->kind && a->fields == b->fields && a->is_exported == b->is_exported;
}

bool are_all(const std::vector<const ShellValue*>& values, const ShellValue* one) {
  return std::ranges::all_of(values, [one](const ShellValue* value) { return are_equal(value, one); });
}

/// Whether values are exported; none where some are.
std::optional<bool> exported_in(const std::vector<const ShellValue*>& values) {
  std::optional<bool> exported = values.front() != nullptr ? values.front()->is_exported : false;
  for (const ShellValue* value : values)
    if ((value != nullptr ? value->is_exported : false) != exported) exported.reset();
  return exported;
}

const ShellValue* value_of(const ShellState& state, const std::string& name) {
  const auto found = state.variables->find(name);
  return found == state.variables->end() ? nullptr : found->second.get();
}

/// Adds the entries of another map. Those that have another value there get one that is not known.
template <typename Map>
void join_map(Map& map, const Map& other, const typename Map::mapped_type& unknown) {
  for (const auto& [key, value] : other)
    if (map.try_emplace(key, value).first->second != value) map[key] = unknown;
}

/// The words of a text that gives arguments. Those of an array are its fields.
ShellFields words_of(const ShellValue& value) {
  if (value.kind != ValueKind::text) return value.fields;
  ShellFields words;
  append_words(value.fields.front(), words);
  return words;
}

/// Whether values of one kind are texts that differ, be it in blanks alone.
bool is_other_text(const ShellValue& a, const ShellValue& b) {
  return a.kind == ValueKind::text && a.fields.front().text != b.fields.front().text;
}

/// A variable of which branches have made other values.
class Merge {
 public:
  Merge(ShellValues& values, const std::string& name, const std::string& asked)
      : values_(values), name_(name), asked_(asked) {}

  ShellValue merged(const ShellValue* before, const std::vector<const ShellValue*>& others) {
    bool are_arrays = true;  // which have no values from outside
    for (const ShellValue* one : others)
      are_arrays = are_arrays && one != nullptr && one->kind == ValueKind::array;
    const ShellValue empty{.kind = ValueKind::array};
    const ShellValue* const base = before == nullptr && are_arrays ? &empty : before;
    if (base != nullptr && base->kind != ValueKind::unset)
      if (std::optional<ShellValue> value = extended(*base, others)) return *std::move(value);
    const bool is_unset = others.back() == nullptr || others.back()->fields.empty();
    const ShellFields fields = is_unset ? ShellFields{{"", 0}} : others.back()->fields;
    if (is_unset) return {.fields = {mark("${" + name_ + "}", "it may have been unset", fields)}};
    return {.fields = {mark(name_ + "=" + shown(fields, "="), reason("assigned"), fields)}};
  }

 private:
  std::string reason(const char* done) const {
    return fmt::format("it is {} in a branch{}", done, asked_.empty() ? "" : " that depends on $" + asked_);
  }

  ShellField mark(const std::string& source, const std::string& reason, const ShellFields& of,
                  const std::vector<std::string>& appended = {}) {
    const int line = of.front().line;
    const std::string& variable = asked_.empty() && appended.empty() ? name_ : asked_;
    return {values_.mark(source, variable, line, reason, appended), line, true};
  }

  /// Fields as a reader sees them, without the name of the variable before those of inner branches.
  std::string shown(const ShellFields& fields, const std::string& sign) const {
    std::string text;
    for (const ShellField& field : fields) {
      const std::string one = values_.shown(field.text);
      const std::size_t begin = one.starts_with(name_ + sign) ? name_.size() + sign.size() : 0;
      text += (text.empty() ? "" : " ") + one.substr(begin);
      if (text.size() > kMostRunArguments) break;
    }
    return text;
  }

  /// Returns a value with marks NAME+=... for what branches put after it or before it; nothing where one
  /// does another thing.
  std::optional<ShellValue> extended(const ShellValue& before, const std::vector<const ShellValue*>& others) {
    const ShellFields words = words_of(before);
    const auto count = std::ssize(words);
    const bool is_text = before.kind == ValueKind::text;
    ShellValue value = before;
    if (is_text && words.empty()) return std::nullopt;
    for (const ShellValue* other : others) {
      ShellFields more;
      if (other != nullptr && other->kind == before.kind) more = words_of(*other);
      if (std::ssize(more) < count || other == nullptr || other->kind != before.kind) return std::nullopt;
      const bool is_behind = std::equal(words.begin(), words.end(), more.begin());
      if (!is_behind && !(is_text && std::equal(words.begin(), words.end(), more.end() - count)))
        return std::nullopt;
      const auto cut = is_behind ? more.begin() : more.end() - count;
      more.erase(cut, cut + count);
      if (!more.empty())
        add(more, value);
      else if (is_other_text(before, *other))
        return std::nullopt;
    }
    return value;
  }

  void add(const ShellFields& more, ShellValue& value) {
    const std::string text = shown(more, "+="), source = name_ + "+=" + text;
    std::vector<std::string> words;
    for (const ShellField& word : words_of({.fields = {{text, 0}}})) words.push_back(word.text);
    for (const ShellField& field : value.fields)
      for (const Unresolved& present : values_.unresolved(field.text))
        if (present.text == source) return;
    const ShellField added = mark(source, reason("appended"), more, words);
    if (value.kind == ValueKind::text) value.fields.front().text += " " + added.text;
    if (value.kind != ValueKind::text) value.fields.push_back(added);
  }

  ShellValues& values_;
  const std::string& name_;
  const std::string& asked_;
};

/// Whether nothing is known of a value, and of the number of its words.
bool is_unknown(const ShellValue* value) {
  if (value == nullptr || value->kind != ValueKind::text || !value->fields.front().may_be_many) return false;
  return value->fields.front().text.find(kUnknownEnd) + 1 == value->fields.front().text.size();
}

/// Returns the names of the variables that have other values in a state than before.
std::set<std::string> changed_names(const std::vector<ShellState>& states, const ShellState& before) {
  std::set<std::string> names;
  for (const ShellState& one : states) {
    if (one.variables == before.variables) continue;
    for (const ShellState* state : {&one, &before})
      for (const auto& [name, value] : *state->variables)
        if (value_of(before, name) != value_of(one, name)) names.insert(name);
  }
  return names;
}

}  // namespace

/// Joins the variables of states.
std::shared_ptr<ShellVariables> ShellValues::joined_variables(const std::vector<ShellState>& states,
                                                              const ShellState& before,
                                                              const std::string& asked, bool is_loop) {
  const std::set<std::string> names = changed_names(states, before);
  if (names.empty()) return before.variables;
  charge((states.size() + 1) * before.variables->size() * sizeof(void*), 0);
  auto result = std::make_shared<ShellVariables>(*before.variables);
  for (const std::string& name : names) {
    const ShellValue* const old = value_of(before, name);
    std::vector<const ShellValue*> others;
    for (const ShellState& one : states) others.push_back(value_of(one, name));
    const bool are_same = are_all(others, others.front());
    const std::optional<bool> exported = exported_in(others);
    std::erase_if(others, [old](const ShellValue* value) { return are_equal(value, old); });
    if (others.empty() || (is_loop && is_unknown(old))) continue;
    if (are_same && others.front() == nullptr) {
      result->erase(name);
      continue;
    }
    ShellValue value = are_same ? *others.front() : Merge(*this, name, asked).merged(old, others);
    if (!are_same) value.is_exported = exported;
    if (value.order == 0) value.order = ++assigned_;
    if (!are_equal(old, &value)) (*result)[name] = std::make_shared<const ShellValue>(std::move(value));
  }
  return result;
}

ShellState ShellValues::joined(std::vector<ShellState> states, const ShellState& before,
                               const std::string& asked, bool is_loop) {
  if (states.size() == 1) return std::move(states.front());
  std::shared_ptr<ShellVariables> variables = joined_variables(states, before, asked, is_loop);
  ShellState joint = std::move(states.front());
  joint.variables = std::move(variables);
  for (const ShellState& other : std::span(states).subspan(1)) {
    join_map(joint.functions, other.functions, nullptr);
    join_map(joint.files, other.files, std::nullopt);
    join_map(joint.opaque, other.opaque, true);
    joint.own.insert(other.own.begin(), other.own.end());
    ShellCall& call = joint.calls.back();
    const ShellCall& other_call = other.calls.back();
    if (call.outer != other_call.outer) {  // which variables are local is not known, and so these are not
      join_map(call.outer, other_call.outer, nullptr);
      const ShellField unknown{mark("local", "", line_, "it may be a local variable"), line_, true};
      for (auto& [name, value] : call.outer)
        value = std::make_shared<const ShellValue>(ShellValue{.fields = {unknown}});
    }
    const bool are_same = call.arguments.fields == other_call.arguments.fields &&
                          call.arguments.shifted == other_call.arguments.shifted;
    if (!are_same) call.arguments = {.shifted = std::nullopt};
    if (joint.output != other.output) joint.output.reset();
    if (!joint.output && joint.output_asked.empty()) joint.output_asked = asked;
    if (joint.folder != other.folder) joint.folder.reset();
    joint.line_of_any = std::max(joint.line_of_any, other.line_of_any);
    if (joint.exports_all != other.exports_all) joint.exports_all.reset();
    if (joint.status.success != other.status.success) joint.status = {.asked = asked};
  }
  return joint;
}

}  // namespace verify
