// One state of those in which branches have ended: what is not the same in all of them is not known.

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <set>
#include <span>
#include <utility>

#include "verify/run_arguments/shell_values.h"

namespace verify {

namespace {

using ValueKind = ShellValue::Kind;

bool are_equal(const ShellValue* a, const ShellValue* b) {
  if (a == nullptr || b == nullptr || a == b) return a == b;
  return a->kind == b->kind && a->fields == b->fields && a->keys == b->keys;
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

/// The fields of a text between its blanks.
ShellFields words_of(std::string_view text, int line) {
  constexpr std::string_view kBlanks = " \t\n";
  ShellFields words;
  for (std::size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back({std::string(text.substr(at, end - at)), line});
    at = end;
  }
  return words;
}

}  // namespace

/// Returns marks NAME+=... for fields that a branch appends to a value, without those of which `known` has
/// the same. Marks that inner branches have made stay as they are.
std::vector<std::string> ShellValues::marks_of(const std::string& name, const ShellFields& fields,
                                               const std::string& known, const std::string& asked) {
  std::vector<std::string> marks;
  std::string run;
  int line = 0;
  const auto add = [&](const std::string& source, const std::string& inner) {
    std::vector<Unresolved> present = unresolved(known);
    for (const std::string& one : marks) present.push_back(unresolved(one).front());
    if (std::ranges::find(present, source, &Unresolved::text) != present.end()) return;
    marks.push_back(inner.empty() ? mark(source, asked, line, reason_of_branch("appended", asked)) : inner);
    const bool is_whole = unknowns_.back().text == source;  // and not cut
    if (!inner.empty() || !is_whole) return;
    for (const ShellField& word : words_of(source.substr(source.find('=') + 1), line))
      unknowns_.back().appended.push_back(word.text);
  };
  for (const ShellField& field : fields) {
    const std::vector<Unresolved> inner = unresolved(field.text);
    const bool is_of_branch = inner.size() == 1 && inner[0].text.starts_with(name + "+=");
    if (run.empty()) line = field.line;
    if (!is_of_branch) run += (run.empty() ? "" : " ") + shown(field.text);
    if (!is_of_branch) continue;
    if (!run.empty()) add(fmt::format("{}+={}", name, std::exchange(run, "")), "");
    add(inner[0].text, field.text);
  }
  if (!run.empty()) add(fmt::format("{}+={}", name, run), "");
  return marks;
}

/// Returns a value with what branches append to it; nothing where one does another thing.
std::optional<ShellValue> ShellValues::extended(const std::string& name, const ShellValue& before,
                                                const std::vector<const ShellValue*>& others,
                                                const std::string& asked) {
  ShellValue value = before;
  const bool is_text = before.kind == ValueKind::text;
  const std::string text = is_text ? before.fields.front().text : "";
  for (const ShellValue* other : others) {
    if (other == nullptr || other->kind != before.kind || before.kind == ValueKind::table)
      return std::nullopt;
    if (!is_text) {
      const bool begins = other->fields.size() >= before.fields.size() &&
                          std::equal(before.fields.begin(), before.fields.end(), other->fields.begin());
      if (!begins) return std::nullopt;
      std::string known;
      for (const ShellField& field : value.fields) known += field.text;
      const ShellFields more(other->fields.begin() + std::ssize(before.fields), other->fields.end());
      for (std::string& one : marks_of(name, more, known, asked))
        value.fields.push_back({std::move(one), more.front().line, true});
      continue;
    }
    std::string_view more = other->fields.front().text;
    const bool is_behind = more.starts_with(text);
    if (text.empty() || (!is_behind && !more.ends_with(text))) return std::nullopt;
    if (is_behind) more.remove_prefix(text.size());
    if (!is_behind) more.remove_suffix(text.size());
    const ShellFields words = words_of(more, other->fields.front().line);
    const bool is_apart =
        !more.empty() && std::string_view(" \t\n;|&<>").find(more.front()) != std::string_view::npos;
    const bool is_one_word = text.find_first_of(" \t\n") == std::string::npos;
    std::string& all = value.fields.front().text;
    for (const std::string& one : marks_of(name, words, all, asked.empty() && is_one_word ? name : asked)) {
      const bool ends_apart = !is_behind || more.find_last_of(" \t\n") + 1 == more.size();
      all = is_behind ? all + (is_apart ? " " : "") + one + (ends_apart ? " " : "") : one + " " + all;
    }
  }
  return value;
}

/// Returns the value of a variable that has others behind branches than before them.
ShellValue ShellValues::merged(const std::string& name, const ShellValue* before,
                               const std::vector<const ShellValue*>& others, const std::string& asked,
                               bool is_loop) {
  const auto is_unknown = [&](const ShellValue& value) {
    return value.kind == ValueKind::text && value.fields.front().may_be_many &&
           unresolved(value.fields.front().text).size() == 1 &&
           value.fields.front().text.ends_with(kUnknownEnd) &&
           value.fields.front().text.starts_with(kUnknownBegin);
  };
  if (is_loop && before != nullptr && is_unknown(*before)) return *before;
  const bool are_arrays = std::ranges::all_of(
      others, [](const ShellValue* one) { return one != nullptr && one->kind == ValueKind::array; });
  const ShellValue empty{.kind = ValueKind::array};
  const ShellValue* const base = before == nullptr && are_arrays ? &empty : before;
  if (base != nullptr && base->kind != ValueKind::unset)
    if (std::optional<ShellValue> value = extended(name, *base, others, asked)) return *std::move(value);
  const ShellValue* const last = others.back() != nullptr ? others.back() : before;
  const int line = last == nullptr || last->fields.empty() ? 0 : last->fields.front().line;
  const bool is_unset = others.back() == nullptr || others.back()->kind == ValueKind::unset;
  std::string text;
  for (const ShellField& field : is_unset ? ShellFields() : last->fields) {
    text += (text.empty() ? "" : " ") + shown(field.text);
    if (text.size() > kMostRunArguments) break;
  }
  if (text.starts_with(name + "=")) text.erase(0, name.size() + 1);  // of an inner branch
  const std::string source = is_unset ? "${" + name + "}" : fmt::format("{}={}", name, text);
  const std::string reason = is_unset ? "it may have been unset" : reason_of_branch("assigned", asked);
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
    std::vector<const ShellValue*> others;
    bool is_exported = false;
    for (const ShellState& one : states) {
      const ShellValue* const value = value_of(one, name);
      is_exported = is_exported || (value != nullptr && value->is_exported);
      if (!are_equal(value, old)) others.push_back(value);
    }
    if (others.empty()) continue;
    const bool is_same =
        others.size() == states.size() &&
        std::ranges::all_of(others, [&](const ShellValue* one) { return are_equal(one, others.front()); });
    if (is_same && others.front() == nullptr) {
      result->erase(name);
      continue;
    }
    ShellValue value = is_same ? *others.front() : merged(name, old, others, asked, is_loop);
    value.is_exported = is_exported;
    if (value.order == 0) value.order = ++assigned_;
    if (old != nullptr && are_equal(old, &value)) continue;
    (*result)[name] = std::make_shared<const ShellValue>(std::move(value));
  }
  return result;
}

ShellState ShellValues::joined(std::vector<ShellState> states, const ShellState& before,
                               const std::string& asked, bool is_loop) {
  if (states.size() == 1) return std::move(states.front());
  std::shared_ptr<ShellVariables> variables = joined_variables(states, before, asked, is_loop);
  ShellState result = std::move(states.front());
  result.variables = std::move(variables);
  const auto unknown = std::make_shared<const ShellValue>(
      ShellValue{.fields = {{mark("local", "", 0, reason_of_branch("hidden", asked)), 0, true}}});
  for (const ShellState& other : std::span(states).subspan(1)) {
    join_map(result.functions, other.functions, nullptr);
    join_map(result.files, other.files, std::nullopt);
    result.own.insert(other.own.begin(), other.own.end());
    result.integers.insert(other.integers.begin(), other.integers.end());
    result.references.insert(other.references.begin(), other.references.end());
    result.line_of_any = std::max(result.line_of_any, other.line_of_any);
    ShellCall& call = result.calls.back();
    for (const auto& [name, value] : other.calls.back().outer)
      if (!call.outer.contains(name)) call.outer[name] = unknown;
    for (auto& [name, value] : call.outer)
      if (const auto of_other = other.calls.back().outer.find(name);
          of_other == other.calls.back().outer.end() || of_other->second != value)
        value = unknown;
    if (call.arguments.fields != other.calls.back().arguments.fields ||
        call.arguments.shifted != other.calls.back().arguments.shifted)
      call.arguments = {.shifted = std::nullopt, .name = call.arguments.name};
    if (result.output != other.output) result.output.reset();
    if (!result.output && result.output_asked.empty()) result.output_asked = asked;
    if (result.folder != other.folder) result.folder.reset();
    result.ends_by_failure = result.ends_by_failure && other.ends_by_failure;
    result.exports_all = result.exports_all || other.exports_all;
    if (result.status.success != other.status.success)
      result.status = {.success = std::nullopt, .asked = asked};
  }
  return result;
}

}  // namespace verify
