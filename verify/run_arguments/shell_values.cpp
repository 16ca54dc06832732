#include "verify/run_arguments/shell_values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/shell_arithmetic.h"
#include "verify/run_arguments/shell_pattern.h"

namespace verify {

namespace {

/// Whether each byte of a text is a character, as lengths and slices count characters.
bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (static_cast<unsigned char>(c) & 0x80U) == 0; });
}

constexpr std::size_t kMostValueBytes = std::size_t{1} << 20U;
constexpr std::size_t kMostExpandedBytes = std::size_t{64} << 20U;  // of all words and values together
constexpr std::size_t kMostUnknowns = 100'000;
constexpr std::size_t kMostSourceBytes = 400;  // of what is shown of an expansion that is not known
constexpr int kMostOpenExpansions = 32;
constexpr const char* kBlanks = " \t\r\n";
constexpr const char* kSeparatorsNotKnown = "what separates the words is not known";
constexpr std::string_view kSeparators = ";|&<>";  // they end a word of a command
constexpr std::size_t kMostShifted = 1'000'000;    // arguments of a script

std::string reason_of_branch(const char* done, const std::string& asked) {
  return fmt::format("it is {} in a branch{}", done,
                     asked.empty() ? "" : fmt::format(" that depends on ${}", asked));
}

void refuse_size(int line, const char* what) {
  sim::refuse({.code = "run_file_size",
               .option = fmt::format("line {}", line),
               .numbers = what,
               .rule = "the values of a launch script are short",
               .hint = "the command line alone"});
}

/// Cuts a text that is shown to a reader. A value that is not known may hold others, twice as much each time.
std::string cut(std::string text) {
  if (text.size() <= kMostSourceBytes) return text;
  std::size_t end = kMostSourceBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // inside of a character
  return text.substr(0, end) + " ...";
}

/// Returns the fields of a value that an expansion takes: all, the first one, or that of its index.
std::vector<ShellField> chosen_of(const ShellPart& part, const std::vector<ShellField>& value) {
  if (part.kind == ShellPart::Kind::elements) return value;
  const auto index = part.kind == ShellPart::Kind::element ? static_cast<std::size_t>(part.index) : 0;
  if (index >= value.size()) return {};
  return {value[index]};
}

/// Whether the fields before one are as many as they seem to be.
bool is_placed(const std::vector<ShellField>& fields, std::int64_t index) {
  const auto end = fields.begin() + std::min<std::int64_t>(index, std::ssize(fields));
  return std::none_of(fields.begin(), end, [](const ShellField& field) { return field.may_be_many; });
}

/// Whether an expansion is a list of words: "${ARRAY[@]}" or "$@".
bool is_list(const ShellPart& part) {
  if (part.joins) return false;
  return part.kind == ShellPart::Kind::elements || part.text == "$@" || part.text == "${@}";
}

bool is_blank(char c) { return std::string_view(kBlanks).find(c) != std::string_view::npos; }

/// Returns the fields as one, with this text between them.
ShellField one_of(const std::vector<ShellField>& fields, const std::string& between) {
  ShellField one = fields.front();
  for (auto field = fields.begin() + 1; field != fields.end(); ++field) one.text += between + field->text;
  return one;
}

}  // namespace

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
  const std::size_t begin = std::min(more.find_first_not_of(kBlanks), more.size());
  const std::size_t end = more.find_last_not_of(kBlanks) + 1;
  if (begin == more.size()) return true;
  const bool is_apart = begin > 0 || kSeparators.find(more[begin]) != std::string_view::npos;
  // A value of one word is one to set; arguments have others beside them.
  const bool is_word = asked.empty() && before.find_first_of(kBlanks) == std::string::npos;
  const std::string marked =
      mark(fmt::format("{}+={}", assignment.name, shown(more.substr(begin, end - begin))),
           is_word ? assignment.name : asked, assignment.line, reason_of_branch("appended", asked));
  const std::string text = (is_apart ? " " : "") + marked + (end < more.size() ? " " : "");
  keep({.name = assignment.name,
        .appends = false,
        .is_array = false,
        .is_local = false,
        .is_associative = false,
        .is_reference = false,
        .key = {},
        .values = {},
        .line = assignment.line},
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
  if (bytes > kMostValueBytes) refuse_size(assignment.line, "a value of more than 1 MiB");
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

/// Returns the characters that separate words: the value of IFS; none where it is not known.
std::optional<std::string> ShellValues::separators() const {
  const Fields* value = known("IFS");
  if (value == nullptr || value->empty()) return kBlanks;
  const std::string& text = value->front().text;
  const bool is_plain = value->size() == 1 && !value->front().has_unknown() &&
                        std::ranges::none_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!is_plain) return std::nullopt;
  return text == " \t\n" ? kBlanks : text;
}

std::string ShellValues::joined(const ShellWord& word) {
  ShellWord quoted = word;
  for (ShellPart& part : quoted.parts) part.is_quoted = true;
  std::string text;
  for (const ShellField& field : expand(quoted)) text += (text.empty() ? "" : " ") + field.text;
  return text;
}

/// Returns the text of a word inside of an expansion.
ShellValues::Fields ShellValues::expand_nested(const ShellWord& word, int line) {
  if (depth_ == kMostOpenExpansions)
    return {{mark("${...}", "", line, "its defaults are nested too deep"), line}};
  ++depth_;
  std::string text = joined(word);
  --depth_;
  return {{std::move(text), line}};
}

ShellOutput ShellValues::output_of(const ShellPart& part, int line) {
  if (depth_ == kMostOpenExpansions) return {};
  ++depth_;
  ShellOutput output = shell_output(part.text, line, *this);
  --depth_;
  return output;
}

/// Returns the fields of $@, $* and $#.
ShellValues::Fields ShellValues::fields_of_arguments(const ShellPart& part, int line) {
  std::size_t shifted = 0;
  std::vector<Fields> given;
  const std::vector<Fields>* all = arguments(shifted);
  if (all == nullptr && shifted_ && set_.contains("1")) {  // --set gives them, from the first one on
    for (std::size_t i = 1; set_.contains(fmt::format("{}", i)); ++i)
      given.push_back(set_.at(fmt::format("{}", i)));
    shifted += static_cast<std::size_t>(*shifted_);
    all = &given;
  }
  const auto is_open = [](const Fields& argument) { return argument.front().may_be_many; };
  const bool counts = part.text == "$#" || part.text == "${#}";
  if (all == nullptr || (counts && std::ranges::any_of(*all, is_open)))
    return {{mark(part.source, "", line, "only a shell can tell its value"), line, !counts}};
  const std::size_t begin = std::min(shifted, all->size());
  if (counts) return {{fmt::format("{}", all->size() - begin), line}};
  Fields fields;
  for (std::size_t i = begin; i < all->size(); ++i) fields.push_back((*all)[i].front());
  return fields;
}

/// Returns the number of an offset or a length.
std::optional<std::int64_t> ShellValues::number_of(const ShellWord& word, int line) {
  const Fields text = expand_nested(word, line);
  if (text.front().has_unknown()) return std::nullopt;
  if (text.front().text.find_first_not_of(kBlanks) == std::string::npos) return 0;
  return index_or_negative(text.front().text);
}

/// Returns the elements of ${ARRAY[@]:offset:length} and "${@:offset}".
std::optional<ShellValues::Fields> ShellValues::sliced(const ShellPart& part, const Fields& fields,
                                                       int line) {
  const auto offset = number_of(*part.pattern, line);
  const auto length = part.replacement ? number_of(*part.replacement, line) : std::ssize(fields);
  if (!offset || !length || *length < 0 || !is_placed(fields, std::ssize(fields))) return std::nullopt;
  // The argument 0 of a script is its name.
  if (part.kind == ShellPart::Kind::unknown && *offset < 1) return std::nullopt;
  const std::int64_t first = part.kind == ShellPart::Kind::unknown ? *offset - 1 : *offset;
  const std::int64_t count = std::ssize(fields);
  const std::int64_t begin = first < 0 ? count + first : std::min(first, count);
  if (begin < 0) return Fields();
  const std::int64_t end = std::min(count, begin + std::min(*length, count));
  return Fields(fields.begin() + begin, fields.begin() + end);
}

/// Returns what a change makes of a text.
std::optional<std::string> ShellValues::changed_text(const ShellPart& part, const std::string& text,
                                                     int line) {
  using enum ShellChange;
  const auto cased = [&](bool is_upper, std::size_t count) {
    std::string other = text;
    for (std::size_t i = 0; i < std::min(count, other.size()); ++i) {
      const auto c = static_cast<unsigned char>(other[i]);
      other[i] = static_cast<char>(is_upper ? std::toupper(c) : std::tolower(c));
    }
    return other;
  };
  const auto replaced = [&](PatternPlace place) -> std::optional<std::string> {
    const std::string wanted = pattern(*part.pattern);
    const std::string word = part.replacement ? joined(*part.replacement) : "";
    if (wanted.find(kUnknownBegin) != std::string::npos || word.find(kUnknownBegin) != std::string::npos)
      return std::nullopt;
    const std::size_t starts =
        place == PatternPlace::first || place == PatternPlace::all ? text.size() + 1 : 1;
    constexpr std::size_t kStepsOfAByte = 64;
    charge(std::min(text.size(), kMostMatchedBytes) * std::min(starts, kMostReplacedBytes) *
               std::min(wanted.size(), kMostPatternBytes) / kStepsOfAByte,
           line);
    if (!wanted.empty()) return with_pattern_replaced(text, wanted, place, word);
    // An empty pattern fits at the begin and at the end, and nowhere else.
    if (place == PatternPlace::first || place == PatternPlace::all) return text;
    const bool is_at_begin = place == PatternPlace::shortest_begin || place == PatternPlace::longest_begin;
    return is_at_begin ? word + text : text + word;
  };
  switch (part.change) {
    case none:
      return text;
    case length:
      return is_ascii(text) ? std::optional(fmt::format("{}", text.size())) : std::nullopt;
    case upper_first:
      return cased(true, 1);
    case upper:
      return cased(true, text.size());
    case lower_first:
      return cased(false, 1);
    case lower:
      return cased(false, text.size());
    case cut_begin:
      return replaced(PatternPlace::shortest_begin);
    case cut_longest_begin:
    case replace_begin:
      return replaced(PatternPlace::longest_begin);
    case cut_end:
      return replaced(PatternPlace::shortest_end);
    case cut_longest_end:
    case replace_end:
      return replaced(PatternPlace::longest_end);
    case replace:
      return replaced(PatternPlace::first);
    case replace_all:
      return replaced(PatternPlace::all);
    case slice: {
      const auto offset = number_of(*part.pattern, line);
      const auto size = std::ssize(text);
      const auto count = part.replacement ? number_of(*part.replacement, line) : size;
      if (!offset || !count || !is_ascii(text)) return std::nullopt;
      const std::int64_t begin = *offset < 0 ? size + *offset : std::min(*offset, size);
      if (begin < 0) return "";
      const std::int64_t end = *count < 0 ? size + *count : std::min(size, begin + std::min(*count, size));
      if (end < begin) return std::nullopt;
      return text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    }
  }
  return std::nullopt;
}

/// Returns the fields that a change makes of those of an expansion.
ShellValues::Fields ShellValues::changed(const ShellPart& part, Fields fields, int line) {
  if (part.change == ShellChange::none) return fields;
  const auto unknown = [&] {
    const std::string asked = first_variable(fields);
    return Fields{
        {mark(part.source, asked, line, "only a shell can tell its value"), line, fields.size() > 1}};
  };
  if (std::ranges::any_of(fields, &ShellField::has_unknown)) return unknown();
  const bool is_of_list = part.kind == ShellPart::Kind::elements || part.kind == ShellPart::Kind::unknown;
  if (is_of_list && part.change == ShellChange::slice) {
    std::optional<Fields> some = sliced(part, fields, line);
    return some ? std::move(*some) : unknown();
  }
  if (fields.empty() && !is_of_list) fields = {{"", line}};
  for (ShellField& field : fields) {
    std::optional<std::string> text = changed_text(part, field.text, line);
    if (!text) return unknown();
    field.text = std::move(*text);
  }
  return fields;
}

/// Returns the fields of an expansion, before its words are split.
ShellValues::Fields ShellValues::fields_of(const ShellPart& part, int line) {
  using Kind = ShellPart::Kind;
  const auto unknown = [&](const std::string& variable, const char* reason) {
    return Fields{{mark(part.source, variable, line, reason), line}};
  };
  if (part.kind == Kind::literal) return {{part.text, line}};
  const bool is_of_arguments =
      part.kind == Kind::unknown && (part.text == "$@" || part.text == "$*" || part.text == "${@}" ||
                                     part.text == "${*}" || part.text == "$#" || part.text == "${#}");
  if (is_of_arguments) return changed(part, fields_of_arguments(part, line), line);
  if (part.kind == Kind::unknown) {
    const ShellOutput output = output_of(part, line);
    if (output.text) return {{*output.text, line}};
    return unknown(output.asked, "only a shell can tell its value");
  }
  if (part.kind == Kind::arithmetic) {
    const Fields text = expand_nested(*part.expression, line);
    std::string asked = text.front().has_unknown() ? first_variable(text) : "";
    const auto number = shell_arithmetic(text.front().text, [&](const std::string& name) {
      const Fields* value = known(name);
      const bool is_there = value != nullptr && !value->empty();
      if (asked.empty()) asked = is_there ? first_variable(*value) : name;
      return is_there ? std::optional(value->front().text) : std::nullopt;
    });
    if (number) return {{fmt::format("{}", *number), line}};
    const bool is_expanded = part.source.starts_with('$');  // ((...)) is followed as a command
    for (const std::string& name :
         is_expanded ? names_assigned_by(text.front().text) : std::vector<std::string>())
      forget(name, line, "it is assigned by arithmetic");
    return unknown(asked, "its numbers are not all known");
  }
  if (part.is_indirect) {
    const Fields* name = known(part.text);
    const bool is_known = name != nullptr && name->size() == 1 && !name->front().has_unknown();
    if (!is_known) return unknown(name == nullptr ? part.text : first_variable(*name), kNotAssigned);
    ShellPart other = part;
    other.is_indirect = false;
    other.text = name->front().text;
    return fields_of_variable(other, line);
  }
  if (const std::string name = referred(part.text); name != part.text) {
    if (name.empty()) return unknown("", "the variable that it stands for is not known");
    ShellPart other = part;
    other.text = name;
    return fields_of_variable(other, line);
  }
  return fields_of_variable(part, line);
}

/// Returns the fields of an expansion of a variable, before its words are split.
ShellValues::Fields ShellValues::fields_of_variable(const ShellPart& part, int line) {
  using Kind = ShellPart::Kind;
  const auto unknown = [&](const std::string& variable, const char* reason) {
    return Fields{{mark(part.source, variable, line, reason), line}};
  };
  const auto table = set_.contains(part.text) ? tables_.end() : tables_.find(part.text);
  if (table != tables_.end() && part.kind == Kind::count)
    return {{fmt::format("{}", table->second.size()), line}};
  if (table != tables_.end() && part.kind != Kind::keyed)
    return unknown("", "only a shell can tell the order of its elements");
  const Fields* value = known(part.text);
  Fields of_key;  // the element of a key, as the value of a variable
  if (part.kind == Kind::keyed) {
    const Fields key = expand_nested(*part.key, line);
    const bool is_known = !key.front().has_unknown();
    if (table != tables_.end()) {
      const auto element = is_known ? table->second.find(key.front().text) : table->second.end();
      if (element == table->second.end())
        return unknown(first_variable(key), "the element of this key is not known");
      of_key = {{element->second, line}};
    } else {
      auto index = is_known ? index_or_negative(key.front().text) : std::nullopt;
      const bool counts_from_end = index && *index < 0 && value != nullptr;
      if (counts_from_end && is_placed(*value, std::ssize(*value))) *index += std::ssize(*value);
      if (!index || *index < 0 || value == nullptr || *index >= std::ssize(*value) ||
          !is_placed(*value, *index))
        return unknown(first_variable(key), "the element of this index is not known");
      of_key = {(*value)[static_cast<std::size_t>(*index)]};
    }
    value = &of_key;
  }
  if (part.kind == Kind::count) {
    if (value == nullptr) return unknown("", "the array is not assigned");
    if (!is_placed(*value, std::ssize(*value)))
      return unknown(first_variable(*value), "the number of its elements is not known");
    return {{fmt::format("{}", value->size()), line}};
  }
  if (part.kind == Kind::element && value != nullptr && !is_placed(*value, part.index))
    return unknown(first_variable(*value), "the element of this index is not known");
  Fields chosen = value != nullptr ? chosen_of(part, *value) : Fields();
  const bool is_there = value != nullptr && (part.kind != Kind::element || !chosen.empty());
  const bool is_empty = chosen.empty() || (chosen.size() == 1 && chosen.front().text.empty());
  if (part.replaced) {
    const bool may_be_empty = chosen.size() == 1 && chosen.front().has_unknown();
    if (value == nullptr || may_be_empty) {
      const std::string asked = first_variable(chosen);
      return unknown(asked.empty() ? part.text : asked, "whether it has a value is not known");
    }
    return is_empty && !part.replaces_empty ? Fields() : expand_nested(*part.replaced, line);
  }
  if (is_empty && part.fallback) {
    Fields fallback = expand_nested(*part.fallback, line);
    if (part.assigns_fallback && !set_.contains(part.text)) define(part.text, fallback.front().text, line);
    return fallback;
  }
  if (is_there) return changed(part, std::move(chosen), line);
  if (value == nullptr && left_unassigned_.contains(part.text))
    return is_list(part) ? Fields() : Fields{{"", line}};
  return unknown(given_name(part.text), kNotAssigned);
}

std::string ShellValues::pattern(const ShellWord& word) {
  std::string text;
  for (const ShellPart& part : word.parts) {
    for (const ShellField& field : fields_of(part, word.line)) {
      const bool is_plain = part.is_quoted && !field.has_unknown();
      text += is_plain ? pattern_of_text(field.text) : field.text;
      charge(field.text.size(), word.line);
      if (text.size() > kMostValueBytes) refuse_size(word.line, "a word of more than 1 MiB");
    }
  }
  return text;
}

std::vector<ShellField> ShellValues::expand(const ShellWord& word) {
  Fields fields;
  bool is_open = false;  // the next text continues the last field
  bool has_no_element = false;
  const auto append = [&](std::string_view text, int line) {
    if (!is_open) fields.push_back({"", line});
    fields.back().text += text;
    is_open = true;
    charge(text.size() + sizeof(ShellField), line);
    if (fields.back().text.size() > kMostValueBytes) refuse_size(line, "a word of more than 1 MiB");
  };
  const std::optional<std::string> separators = this->separators();
  const auto takes_blanks = [&](std::string_view& text) {
    while (!text.empty() && is_blank(text.front()) && separators->find(text.front()) != std::string::npos)
      text.remove_prefix(1);
  };
  // Blanks separate words as often as they stand there; each other separator ends a word, which may be empty.
  const auto append_split = [&](std::string_view text, int line) {
    if (!separators) append(text, line);
    while (separators && !text.empty()) {
      const std::size_t end = std::min(text.find_first_of(*separators), text.size());
      if (end > 0) append(text.substr(0, end), line);
      text.remove_prefix(end);
      if (text.empty()) return;
      takes_blanks(text);
      const bool is_sign =
          !text.empty() && !is_blank(text.front()) && separators->find(text.front()) != std::string::npos;
      if (is_sign && !is_open) append("", line);
      if (is_sign) text.remove_prefix(1);
      takes_blanks(text);
      is_open = false;
    }
  };
  for (const ShellPart& part : word.parts) {
    Fields values = fields_of(part, word.line);
    if (part.joins && part.is_quoted && values.size() > 1)
      values = {one_of(values, separators ? separators->substr(0, 1)
                                          : mark("$IFS", "IFS", word.line, kSeparatorsNotKnown))};
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) is_open = false;
      const bool is_literal = part.kind == ShellPart::Kind::literal;
      const std::string& text = values[i].text;
      if (is_literal || part.is_quoted) {
        append(text, values[i].line != 0 ? values[i].line : word.line);
      } else {
        append_split(text, values[i].line != 0 ? values[i].line : word.line);
      }
      const bool is_changed =
          is_literal ? text.find_first_of(kPatternSigns) != std::string::npos : values[i].has_unknown();
      const bool may_be_split = !separators && !is_literal && !part.is_quoted;
      if (!fields.empty() && (values[i].may_be_many || may_be_split || (is_changed && !part.is_quoted)))
        fields.back().may_be_many = true;
    }
    has_no_element = has_no_element || (values.empty() && is_list(part));
    if (fields.size() > kMostRunArguments) refuse_size(word.line, "a word that becomes too many words");
  }
  // "${ARRAY[@]}" without elements is no word, and not an empty one.
  if (has_no_element && fields.size() == 1 && fields.front().text.empty()) fields.clear();
  return fields;
}

std::vector<ShellField> ShellValues::expand(const std::vector<ShellWord>& words) {
  Fields all;
  for (const ShellWord& word : words) {
    Fields fields = expand(word);
    all.insert(all.end(), std::make_move_iterator(fields.begin()), std::make_move_iterator(fields.end()));
    if (all.size() > kMostRunArguments) refuse_size(word.line, "a command of too many words");
  }
  return all;
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
