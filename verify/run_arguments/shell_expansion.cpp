// How a word becomes fields: the values of its expansions, their changes, and where they are split.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "verify/run_arguments/shell_arithmetic.h"
#include "verify/run_arguments/shell_pattern.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

/// Whether each byte of a text is a character, as lengths and slices count characters.
bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (static_cast<unsigned char>(c) & 0x80U) == 0; });
}

/// Returns a text in the quotes of ${NAME@Q}; nothing for signs that a shell writes in another way.
std::optional<std::string> in_quotes_of_expansion(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ' || !is_ascii({&c, 1})) return std::nullopt;
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

constexpr int kMostOpenExpansions = 32;
constexpr const char* kSeparatorsNotKnown = "what separates the words is not known";

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
  return part.kind == ShellPart::Kind::elements || part.kind == ShellPart::Kind::keys || part.text == "$@" ||
         part.text == "${@}";
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Whether a text has a number with a fraction.
bool has_fraction(std::string_view text) {
  for (std::size_t dot = text.find('.'); dot != std::string_view::npos; dot = text.find('.', dot + 1)) {
    const bool is_between = dot > 0 && is_digit(text[dot - 1]);
    if (is_between || (dot + 1 < text.size() && is_digit(text[dot + 1]))) return true;
  }
  return false;
}

/// Returns the first number of a text that begins with 0 and has a digit 8 or 9; "" where there is none.
std::string_view odd_octal(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '#'))
      ++end;
    const std::string_view word = text.substr(at, end - at);
    const bool are_digits = std::ranges::all_of(word, is_digit);
    if (word.size() > 1 && are_digits && word[0] == '0' && word.find_first_of("89") != std::string_view::npos)
      return word;
    at = end + 1;
  }
  return "";
}

/// Returns why an expression of $((...)) has no value. `texts` are the expression and the values of names.
std::string reason_without_number(std::string_view expression, const std::string& asked,
                                  std::string_view texts) {
  if (!asked.empty()) return "its numbers are not all known";
  if (has_fraction(texts)) return "a shell computes with whole numbers alone, and stops at a fraction";
  if (const std::string_view number = odd_octal(texts); !number.empty())
    return fmt::format("a shell reads {}, which begins with 0, as a number of base 8, and it is none",
                       number);
  return expression.find_first_not_of(" \t\n") == std::string_view::npos ? "it has no number"
                                                                         : "only a shell can tell its value";
}

bool is_blank(char c) { return std::string_view(kShellBlanks).find(c) != std::string_view::npos; }

/// Returns the fields as one, with this text between them.
ShellField one_of(const std::vector<ShellField>& fields, const std::string& between) {
  ShellField one = fields.front();
  for (auto field = fields.begin() + 1; field != fields.end(); ++field) one.text += between + field->text;
  return one;
}

}  // namespace

/// Returns the characters that separate words: the value of IFS; none where it is not known.
std::optional<std::string> ShellValues::separators() const {
  const Fields* value = known("IFS");
  if (value == nullptr || value->empty()) return kShellBlanks;
  const std::string& text = value->front().text;
  const bool is_plain = value->size() == 1 && !value->front().has_unknown() &&
                        std::ranges::none_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!is_plain) return std::nullopt;
  return text == " \t\n" ? kShellBlanks : text;
}

std::string ShellValues::joined(const ShellWord& word) {
  ShellWord quoted = word;
  for (ShellPart& part : quoted.parts) part.is_quoted = true;
  std::string text;
  for (const ShellField& field : expand(quoted)) text += (text.empty() ? "" : " ") + field.text;
  return text;
}

std::string ShellValues::text_of(const HereDocument& document) {
  if (document.is_literal) return document.text;
  return whole(ShellWordReader(document.text, document.line, 0).document()).text;
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
  if (text.front().text.find_first_not_of(kShellBlanks) == std::string::npos) return 0;
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
    case quote:
      return in_quotes_of_expansion(text);
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
  const auto unknown = [&](const std::string& variable, const std::string& reason) {
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
    std::string kept = text.front().text;  // the expression, and the values of its names
    const auto number = shell_arithmetic(text.front().text, [&](const std::string& name) {
      const Fields* value = known(name);
      const bool is_there = value != nullptr && !value->empty();
      if (asked.empty()) asked = is_there ? first_variable(*value) : name;
      if (is_there) kept += " " + value->front().text;
      return is_there ? std::optional(value->front().text) : std::nullopt;
    });
    if (number) return {{fmt::format("{}", *number), line}};
    const bool is_expanded = part.source.starts_with('$');  // ((...)) is followed as a command
    for (const std::string& name :
         is_expanded ? names_assigned_by(text.front().text) : std::vector<std::string>())
      forget(name, line, "it is assigned by arithmetic");
    return unknown(asked, reason_without_number(text.front().text, asked, kept));
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

/// Returns all keys or all elements of an associative array, in the order of the alphabet.
ShellValues::Fields ShellValues::fields_of_table(const ShellPart& part, const Table& table, int line) {
  Fields fields;
  for (const auto& [key, element] : table)
    fields.push_back({part.kind == ShellPart::Kind::keys ? key : element, line});
  const std::string note = fmt::format(
      "line {}: the {} of {} are taken in {}, and a shell has an order of its own", line,
      part.kind == ShellPart::Kind::keys ? "keys" : "elements", part.text,
      part.kind == ShellPart::Kind::keys ? "alphabetical order" : "the alphabetical order of its keys");
  if (table.size() > 1) keep_note(note);
  return fields;
}

void ShellValues::keep_note(const std::string& note) {
  constexpr std::size_t kMostNotes = 5;
  const bool is_new = std::ranges::find(notes_, note) == notes_.end();
  if (is_new && notes_.size() < kMostNotes) notes_.push_back(note);
}

/// Notes that $ARRAY is not all of an array of arguments.
void ShellValues::note_first_element(const ShellPart& part, const Fields& value, int line) {
  if (!value.front().text.starts_with("--")) return;
  keep_note(
      fmt::format("line {}: ${} is the first of the {} elements of an array alone; ${{{}[@]}} is all of them",
                  line, part.text, value.size(), part.text));
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
  const bool is_of_all = part.kind == Kind::elements || part.kind == Kind::keys;
  if (table != tables_.end() && is_of_all)
    return changed(part, fields_of_table(part, table->second, line), line);
  if (table != tables_.end() && part.kind != Kind::keyed)
    return unknown("", "it is an associative array, and has no value without a key");
  const Fields* value = known(part.text);
  if (part.kind == Kind::keys) {
    if (value == nullptr) return unknown("", "the array is not assigned");
    if (!is_placed(*value, std::ssize(*value)))
      return unknown(first_variable(*value), "the number of its elements is not known");
    Fields indices;
    for (std::size_t i = 0; i < value->size(); ++i) indices.push_back({fmt::format("{}", i), line});
    return indices;
  }
  Fields of_key;  // the element of a key, as the value of a variable
  if (part.kind == Kind::keyed) {
    const Fields key = expand_nested(*part.key, line);
    const bool is_known = !key.front().has_unknown();
    if (table != tables_.end()) {
      const auto element = is_known ? table->second.find(key.front().text) : table->second.end();
      const bool is_there = element != table->second.end();
      const bool has_other_word =
          is_known && (part.fallback || part.replaced) && !part.assigns_fallback && !part.replaces_empty;
      if (!is_there && !has_other_word)
        return unknown(first_variable(key), "the element of this key is not known");
      if (is_there) of_key = {{element->second, line}};
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
  if (part.kind == Kind::variable && value != nullptr && value->size() > 1 &&
      part.change == ShellChange::none)
    note_first_element(part, *value, line);
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
      if (text.size() > kMostShellValueBytes) refuse_size(word.line, "a word of more than 1 MiB");
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
    if (fields.back().text.empty()) fields.back().line = line;
    fields.back().text += text;
    is_open = true;
    charge(text.size() + sizeof(ShellField), line);
    if (fields.back().text.size() > kMostShellValueBytes) refuse_size(line, "a word of more than 1 MiB");
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

}  // namespace verify
