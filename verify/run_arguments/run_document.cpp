#include "verify/run_arguments/run_document.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <fmt/format.h>
#include <initializer_list>
#include <limits>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/output/json.h"
#include "verify/output/refusal_table.h"

namespace verify {

namespace {

constexpr std::int64_t kVersion = 1;
constexpr const char* kVersionName = "shardproof_run";
constexpr const char* kOption = "option";
constexpr RunFileKind kKinds[] = {RunFileKind::log, RunFileKind::yaml, RunFileKind::script,
                                  RunFileKind::command};

[[noreturn]] void refuse_member(const std::string& where, const std::string& problem) {
  refuse_by("run_document", where, problem, kVersion);
}

/// An object of the document, and where it stands: "arguments[3]". A member that is read and is not there has
/// the value of its kind that says nothing.
class Object {
 public:
  Object(const Json& json, std::string where, std::initializer_list<std::string_view> known)
      : json_(json), where_(std::move(where)) {
    if (!json.is_object()) refuse_member(where_, "it is no object");
    for (const std::string& name : json.names())
      if (std::ranges::find(known, name) == known.end()) refuse_member(at(name), "there is no such member");
  }

  std::string at(std::string_view name) const {
    return fmt::format("{}{}{}", where_, where_.empty() ? "" : ".", name);
  }
  const Json* find(std::string_view name) const { return json_.find(name); }
  const Json& required(std::string_view name) const {
    if (const Json* member = find(name)) return *member;
    refuse_member(at(name), "it is missing");
  }

  std::string text(std::string_view name) const { return find(name) == nullptr ? "" : required_text(name); }
  std::string required_text(std::string_view name) const { return text_of(required(name), at(name)); }
  /// Returns a text that is printed as it stands.
  std::string shown(std::string_view name) const { return sim::printable_text(text(name)); }
  std::optional<std::int64_t> number(std::string_view name) const {
    const Json* member = find(name);
    if (member == nullptr) return std::nullopt;
    if (!member->is_integer()) refuse_member(at(name), "it is no whole number");
    return member->integer();
  }
  int line() const {
    const std::int64_t line = number("line").value_or(0);
    if (line < 0 || line > std::numeric_limits<int>::max()) refuse_member(at("line"), "it is no line");
    return static_cast<int>(line);
  }
  /// Whether the member is there; it must have this value then.
  bool is(std::string_view name, const Json& value) const {
    const Json* member = find(name);
    if (member != nullptr && member->dump() != value.dump())
      refuse_member(at(name), fmt::format("it is not {}", value.dump()));
    return member != nullptr;
  }
  std::vector<std::string> texts(std::string_view name) const {
    std::vector<std::string> all;
    for_each(name, [&](const Json& one, const std::string& where) { all.push_back(text_of(one, where)); });
    return all;
  }
  std::vector<std::string> sentences(std::string_view name) const {
    std::vector<std::string> all = texts(name);
    for (std::string& one : all) one = sim::printable_text(one);
    return all;
  }
  std::map<std::string, std::string> texts_by_name(std::string_view name) const {
    std::map<std::string, std::string> all;
    const Json* member = find(name);
    if (member == nullptr) return all;
    if (!member->is_object()) refuse_member(at(name), "it is no object");
    for (std::size_t i = 0; i < member->size(); ++i)
      all[member->names()[i]] = text_of(member->elements()[i], at(name) + "." + member->names()[i]);
    return all;
  }
  /// Calls `take` with each element of a list, and where it stands.
  template <typename Take>
  void for_each(std::string_view name, const Take& take) const {
    const Json* member = find(name);
    if (member == nullptr) return;
    if (!member->is_array()) refuse_member(at(name), "it is no list");
    if (member->size() > kMostRunArguments) refuse_member(at(name), "it has too many elements");
    for (std::size_t i = 0; i < member->size(); ++i) take((*member)[i], fmt::format("{}[{}]", at(name), i));
  }

 private:
  static std::string text_of(const Json& value, const std::string& where) {
    if (!value.is_text()) refuse_member(where, "it is no text");
    return value.text();
  }

  const Json& json_;
  std::string where_;
};

RunFileKind kind_of(const Object& document) {
  const std::string name = document.required_text("kind");
  for (const RunFileKind kind : kKinds)
    if (name == run_file_kind_name(kind)) return kind;
  refuse_member("kind", fmt::format("'{}' is no kind", name));
}

RunArgument argument_of(const Json& json, const std::string& where) {
  const Object object(json, where, {"name", "values", "line", "from"});
  RunArgument argument{.name = run_argument_name(object.required_text("name")),
                       .values = object.texts("values"),
                       .line = object.line(),
                       .is_option = object.is("from", kOption)};
  if (argument.name.empty()) refuse_member(object.at("name"), "it is empty");
  return argument;
}

Unresolved unresolved_of(const Json& json, const std::string& where) {
  const Object object(json, where,
                      {"text", "variable", "argument", "line", "reason", "of_world", "appended"});
  return {.text = object.required_text("text"),
          .variable = object.shown("variable"),
          .argument = object.shown("argument"),
          .line = object.line(),
          .reason = object.shown("reason"),
          .is_of_world = object.is("of_world", true),
          .appended = object.texts("appended")};
}

void take_world(const Object& document, RunArguments& run) {
  const Json* world = document.find("world");
  if (world == nullptr) return;
  const Object object(*world, "world", {"ranks", "gpus_per_node", "from"});
  run.world_size = object.number("ranks");
  run.gpus_per_node = object.number("gpus_per_node");
  run.world_size_source = object.shown("from");
}

Json parsed(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const std::exception& error) {
    refuse_member("the document", error.what());
  }
}

// ---- writing

void add_text(Json& object, const char* name, const std::string& text) {
  if (!text.empty()) object[name] = text;
}

void add_line(Json& object, int line) {
  if (line > 0) object["line"] = line;
}

Json json_of(const std::map<std::string, std::string>& texts) {
  Json object = Json::object();
  for (const auto& [name, text] : texts) object[name] = text;
  return object;
}

Json json_of(const RunArgument& argument) {
  Json object = {{"name", argument.name}, {"values", argument.values}};
  add_line(object, argument.line);
  if (argument.is_option) object["from"] = kOption;
  return object;
}

Json json_of_name(const RunArgument& argument) {
  Json object = {{"name", argument.name}};
  add_line(object, argument.line);
  return object;
}

Json json_of(const Unresolved& unknown) {
  Json object = {{"text", unknown.text}, {"reason", unknown.reason}};
  add_text(object, "variable", unknown.variable);
  add_text(object, "argument", unknown.argument);
  add_line(object, unknown.line);
  if (unknown.is_of_world) object["of_world"] = true;
  if (!unknown.appended.empty()) object["appended"] = unknown.appended;
  return object;
}

Json json_of_world(const RunArguments& run) {
  Json world = Json::object();
  if (run.world_size) world["ranks"] = *run.world_size;
  if (run.gpus_per_node) world["gpus_per_node"] = *run.gpus_per_node;
  add_text(world, "from", run.world_size_source);
  return world;
}

/// Returns a member of the document; the elements of a list have a line each.
std::string text_of(const Json& member) {
  if (!member.is_array() || member.empty()) return member.dump();
  std::string text;
  for (const Json& element : member.elements()) text += (text.empty() ? "[\n  " : ",\n  ") + element.dump();
  return text + "]";
}

}  // namespace

bool is_run_document(std::string_view text) {
  const auto skip = [&](std::string_view signs) {
    text.remove_prefix(std::min(text.find_first_not_of(signs), text.size()));
  };
  skip(" \t\r\n");
  if (!text.starts_with('{')) return false;
  text.remove_prefix(1);
  skip(" \t\r\n");
  return text.starts_with(fmt::format("\"{}\"", kVersionName));
}

RunArguments read_run_document(std::string_view text) {
  const Json json = parsed(text);
  const Object document(json, "",
                        {kVersionName, "kind", "name", "program", "arguments", "environment", "world", "set",
                         "unresolved", "underscores", "contradictions", "notes"});
  document.is(kVersionName, kVersion);
  RunArguments run{.kind = kind_of(document),
                   .script = document.text("program"),
                   .notes = document.sentences("notes"),
                   .contradictions = document.sentences("contradictions"),
                   .environment = document.texts_by_name("environment"),
                   .name = document.shown("name"),
                   .set = document.texts_by_name("set")};
  if (run.name.empty()) refuse_member("name", "it is missing or empty");
  document.required("arguments");
  document.for_each("arguments", [&](const Json& one, const std::string& where) {
    run.given.push_back(argument_of(one, where));
  });
  document.for_each("unresolved", [&](const Json& one, const std::string& where) {
    run.unresolved.push_back(unresolved_of(one, where));
  });
  document.for_each("underscores", [&](const Json& one, const std::string& where) {
    const Object object(one, where, {"name", "line"});
    run.with_underscores.push_back({object.required_text("name"), {}, object.line()});
  });
  take_world(document, run);
  return run;
}

std::string text_of_document(const RunArguments& run) {
  Json document = {{kVersionName, kVersion}, {"kind", run_file_kind_name(run.kind)}, {"name", run.name}};
  add_text(document, "program", run.script);
  document["arguments"] = json_list(run.given, [](const RunArgument& one) { return json_of(one); });
  const std::pair<const char*, Json> further[] = {
      {"environment", json_of(run.environment)},
      {"world", json_of_world(run)},
      {"set", json_of(run.set)},
      {"unresolved", json_list(run.unresolved, [](const Unresolved& one) { return json_of(one); })},
      {"underscores", json_list(run.with_underscores, json_of_name)},
      {"contradictions", run.contradictions},
      {"notes", run.notes}};
  for (const auto& [name, member] : further)
    if (!member.empty()) document[name] = member;
  std::string text;
  for (const std::string& name : document.names())
    text += fmt::format("{}{}: {}", text.empty() ? "{" : ",\n ", Json(name).dump(),
                        text_of(*document.find(name)));
  return text + "}\n";
}

}  // namespace verify
