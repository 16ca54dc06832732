// One state of those in which branches have ended: what is not the same in all of them is not known.

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "verify/run_arguments/shell_values.h"

namespace verify {

namespace {

using Kind = ShellValue::Kind;
using Values = std::vector<const ShellValue*>;  // null: there is none

bool are_equal(const ShellValue* a, const ShellValue* b) {
  if (a == nullptr || b == nullptr || a == b) return a == b;
  return a->kind == b->kind && a->fields == b->fields;
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

std::string reason_of_branch(const char* done, const std::string& asked) {
  return fmt::format("it is {} in a branch{}", done,
                     asked.empty() ? "" : fmt::format(" that depends on ${}", asked));
}

/// The words of a text that gives arguments. Those of an array are its fields.
ShellFields words_of(const ShellValue& value) {
  if (value.kind != Kind::text) return value.fields;
  const std::string& text = value.fields.front().text;
  ShellFields words;
  for (std::size_t at = 0; (at = text.find_first_not_of(" \t\n", at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    words.push_back({text.substr(at, end - at), value.fields.front().line});
    at = end;
  }
  return words;
}

bool is_unknown(const ShellValue& value) {
  const bool is_one = value.kind == Kind::text && value.fields.front().may_be_many;
  return is_one && value.fields.front().text.find(kUnknownEnd) + 1 == value.fields.front().text.size();
}

}  // namespace

/// Adds marks NAME+=... for fields that a branch appends, unless there is one of the same text already. Marks that
/// inner branches have made stay as they are.
void ShellValues::add_marks(const std::string& name, const ShellFields& more, const std::string& asked,
                            ShellFields& fields) {
  const auto add = [&](const std::string& source, const std::string& text, int line) {
    for (const ShellField& field : fields)
      for (const Unresolved& present : unresolved(field.text))
        if (present.text == source) return;
    const std::string reason = reason_of_branch("appended", asked);
    fields.push_back({text.empty() ? mark(source, asked, line, reason) : text, line, true});
  };
  std::string run = name + "+=";
  for (const ShellField& field : more) {
    const std::vector<Unresolved> inner = unresolved(field.text);
    const bool is_of_branch = inner.size() == 1 && inner[0].text.starts_with(name + "+=");
    if (!is_of_branch) run += (run.ends_with("+=") ? "" : " ") + shown(field.text);
    const bool ends_run = is_of_branch || &field == &more.back();
    if (ends_run && !run.ends_with("+=")) add(std::exchange(run, name + "+="), "", more.front().line);
    if (is_of_branch) add(inner[0].text, field.text, field.line);
  }
}

/// Returns a value with what branches put behind it or before it; nothing where one does another thing.
std::optional<ShellValue> ShellValues::extended(const std::string& name, const ShellValue& before,
                                                const Values& others, const std::string& asked) {
  const ShellFields words = words_of(before);
  ShellFields added;
  if (before.kind == Kind::text && words.empty()) return std::nullopt;
  for (const ShellValue* other : others) {
    if (other == nullptr || other->kind != before.kind) return std::nullopt;
    ShellFields more = words_of(*other);
    if (more.size() < words.size()) return std::nullopt;
    const auto count = std::ssize(words);
    if (std::equal(words.begin(), words.end(), more.begin())) {
      more.erase(more.begin(), more.begin() + count);
    } else if (before.kind == Kind::text && std::equal(words.begin(), words.end(), more.end() - count)) {
      more.erase(more.end() - count, more.end());
    } else {
      return std::nullopt;
    }
    ShellFields all = words;
    all.insert(all.end(), added.begin(), added.end());
    const auto known = std::ssize(all);
    add_marks(name, more, asked, all);
    added.insert(added.end(), all.begin() + known, all.end());
  }
  ShellValue value = before;
  for (ShellField& field : added) {
    if (before.kind == Kind::text) value.fields.front().text += " " + field.text;
    if (before.kind != Kind::text) value.fields.push_back(std::move(field));
  }
  return value;
}

/// Returns the value of a variable that has others behind branches than before them.
ShellValue ShellValues::merged(const std::string& name, const ShellValue* before, const Values& others,
                               const std::string& asked) {
  // Arrays have no values from outside.
  const bool are_arrays = std::ranges::all_of(
      others, [](const ShellValue* one) { return one != nullptr && one->kind == Kind::array; });
  const ShellValue empty{.kind = Kind::array};
  const ShellValue* const base = before == nullptr && are_arrays ? &empty : before;
  if (base != nullptr && base->kind != Kind::unset)
    if (std::optional<ShellValue> value = extended(name, *base, others, asked)) return *std::move(value);
  const bool is_unset = others.back() == nullptr || others.back()->fields.empty();
  const ShellFields fields = is_unset ? ShellFields{{"", 0}} : others.back()->fields;
  std::string source = name + "=";
  for (const ShellField& field : fields) {
    const std::string text = shown(field.text);  // that of an inner branch has the name, too
    source += (&field == &fields.front() ? "" : " ") +
              text.substr(text.starts_with(name + "=") ? name.size() + 1 : 0);
    if (source.size() > kMostRunArguments) break;
  }
  if (is_unset) source = "${" + name + "}";
  const std::string reason = is_unset ? "it may have been unset" : reason_of_branch("assigned", asked);
  const int line = fields.front().line;
  return {.fields = {{mark(source, asked.empty() ? name : asked, line, reason), line, true}}};
}

/// Joins the variables of states.
std::shared_ptr<ShellVariables> ShellValues::joined_variables(const std::vector<ShellState>& states,
                                                              const ShellState& before,
                                                              const std::string& asked, bool is_loop) {
  std::set<std::string> names;
  for (const ShellState& one : states) {
    if (one.variables == before.variables) continue;
    charge((one.variables->size() + before.variables->size()) * sizeof(void*), 0);
    for (const auto& [name, value] : *one.variables)
      if (value_of(before, name) != value.get()) names.insert(name);
    for (const auto& [name, value] : *before.variables)
      if (!one.variables->contains(name)) names.insert(name);
  }
  if (names.empty()) return before.variables;
  auto result = std::make_shared<ShellVariables>(*before.variables);
  for (const std::string& name : names) {
    const ShellValue* const old = value_of(before, name);
    Values others;
    for (const ShellState& one : states)
      if (const ShellValue* const value = value_of(one, name); !are_equal(value, old))
        others.push_back(value);
    const bool are_same =
        others.size() == states.size() &&
        std::ranges::all_of(others, [&](const ShellValue* one) { return are_equal(one, others.front()); });
    const bool stays = others.empty() || (is_loop && old != nullptr && is_unknown(*old));
    if (!stays && are_same && others.front() == nullptr) result->erase(name);
    if (stays || (are_same && others.front() == nullptr)) continue;
    ShellValue value = are_same ? *others.front() : merged(name, old, others, asked);
    for (const ShellValue* other : others)
      value.is_exported = value.is_exported || (other != nullptr && other->is_exported);
    if (value.order == 0) value.order = ++assigned_;
    if (!are_equal(old, &value)) (*result)[name] = std::make_shared<const ShellValue>(std::move(value));
  }
  return result;
}

/// Joins all but the variables of another state.
void ShellValues::join(ShellState& joint, const ShellState& other, const std::string& asked) {
  join_map(joint.functions, other.functions, nullptr);
  join_map(joint.files, other.files, std::nullopt);
  join_map(joint.opaque, other.opaque, true);
  joint.own.insert(other.own.begin(), other.own.end());
  ShellCall& call = joint.calls.back();
  const ShellCall& other_call = other.calls.back();
  if (call.outer != other_call.outer) {  // which variables are local is not known, and so they are not
    const auto unknown = std::make_shared<const ShellValue>(
        ShellValue{.fields = {{mark("local", "", line_, reason_of_branch("hidden", asked)), line_, true}}});
    join_map(call.outer, other_call.outer, unknown);
    for (auto& [name, value] : call.outer) value = unknown;
  }
  if (call.arguments.fields != other_call.arguments.fields ||
      call.arguments.shifted != other_call.arguments.shifted)
    call.arguments = {.shifted = std::nullopt};
  if (joint.output != other.output) joint.output.reset();
  if (!joint.output && joint.output_asked.empty()) joint.output_asked = asked;
  if (joint.folder != other.folder) joint.folder.reset();
  joint.line_of_any = std::max(joint.line_of_any, other.line_of_any);
  joint.exports_all = joint.exports_all || other.exports_all;
  if (joint.status.success != other.status.success) joint.status = {.asked = asked};
}

ShellState ShellValues::joined(std::vector<ShellState> states, const ShellState& before,
                               const std::string& asked, bool is_loop) {
  if (states.size() == 1) return std::move(states.front());
  std::shared_ptr<ShellVariables> variables = joined_variables(states, before, asked, is_loop);
  ShellState result = std::move(states.front());
  result.variables = std::move(variables);
  for (const ShellState& other : std::span(states).subspan(1)) join(result, other, asked);
  return result;
}

}  // namespace verify
