// How a word becomes fields: the values of its expansions, their changes, and where they are split.

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "verify/output/refusal_table.h"
#include "verify/run_arguments/shell_condition.h"
#include "verify/run_arguments/shell_values.h"

namespace verify {

namespace {

using MaybeFields = std::optional<ShellFields>;
using MaybeText = std::optional<std::string>;

constexpr const char* kOnlyShell = "only a shell knows its value";

bool is_many(const ShellField& field) { return field.may_be_many; }

/// Whether nothing of a text is known, so that it may be empty.
bool may_be_empty(std::string_view text) {
  while (text.starts_with(kUnknownBegin))
    text.remove_prefix(std::min(text.find(kUnknownEnd), text.size() - 1) + 1);
  return text.empty();
}

/// Whether each byte of a text is a character, as lengths and slices count characters.
bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (static_cast<unsigned char>(c) & 0x80U) == 0; });
}

/// ${NAME^^} and its like: the first character, or all of them.
std::string cased(std::string text, std::string_view change) {
  for (char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    c = static_cast<char>(change[0] == '^' ? std::toupper(code) : std::tolower(code));
    if (change.size() == 1) break;
  }
  return text;
}

bool has_default(const ShellPart& part) {
  return part.change == "-" || part.change == "=" || part.change == "+" || part.change == "?";
}

/// Appends what words become to fields. A text that is a whole, or a pattern, is one field, in which nothing
/// is split; in a pattern, what is quoted stands for itself.
class Expansion {
 public:
  enum class Form { fields, whole, pattern };
  enum class Kind { literal, quoted, value };  // a value is split at its blanks

  Expansion(ShellValues& values, Form form) : values_(values), form_(form) {
    const auto own = values.state.variables->find("IFS");
    const bool is_own = own != values.state.variables->end() && own->second->kind != ShellValue::Kind::unset;
    splits_at_blanks_ = !is_own || own->second->fields.front().text == kShellBlanks;
    if (form != Form::fields) fields.push_back({});
  }

  ShellFields fields;

  void add(const ShellWord& word) {
    is_open_ = form_ != Form::fields;
    add_parts(word, Kind::literal);
  }

 private:
  std::string text_of(const ShellWord& word) { return values_.whole(word).text; }
  static Kind kind_of(const ShellPart& part) { return part.is_quoted ? Kind::quoted : Kind::value; }

  /// Adds the parts of a word; literal ones as this kind.
  void add_parts(const ShellWord& word, Kind literal) {
    for (const ShellPart& part : word.parts) {
      line_ = word.line;
      const bool is_literal = part.kind == ShellPart::Kind::literal;
      if (is_literal) append(part.text, part.is_quoted || literal == Kind::quoted ? Kind::quoted : literal);
      if (!is_literal && literal == Kind::quoted && !part.is_quoted) {
        ShellPart quoted = part;
        quoted.is_quoted = true;
        add_part(quoted);
      } else if (!is_literal) {
        add_part(part);
      }
    }
  }

  void append(std::string_view text, Kind kind, bool may_be_many = false) {
    const bool has_unknown = text.find(kUnknownBegin) != std::string_view::npos;
    if (form_ != Form::fields || kind != Kind::value) {
      const bool is_pattern = kind == Kind::literal && text.find_first_of("*?[") != std::string_view::npos;
      if (!text.empty() || kind == Kind::quoted) append_to_field(text, kind, may_be_many || is_pattern);
      return;
    }
    if (!splits_at_blanks_) {
      const std::string asked = values_.variable_of({{std::string(text)}});
      return append_to_field(values_.mark(values_.shown(text), asked, line_, "IFS has another value"), kind,
                             true);
    }
    while (!text.empty()) {
      const std::size_t end = std::min(text.find_first_of(kShellBlanks), text.size());
      if (end > 0) append_to_field(text.substr(0, end), kind, may_be_many || has_unknown);
      text.remove_prefix(end);
      is_open_ = is_open_ && text.empty();
      text.remove_prefix(std::min(text.find_first_not_of(kShellBlanks), text.size()));
    }
  }

  void append_to_field(std::string_view text, Kind kind, bool may_be_many) {
    if (!is_open_) fields.push_back({"", line_});
    is_open_ = true;
    ShellField& field = fields.back();
    if (field.text.empty()) field.line = line_;
    field.may_be_many = field.may_be_many || may_be_many;
    field.text += form_ == Form::pattern && kind == Kind::quoted ? pattern_of_text(text) : std::string(text);
    values_.charge(text.size() + sizeof(ShellField), line_);
    if (field.text.size() > kMostShellValueBytes)
      refuse_by("run_file_size/values", place_of_line(line_), "a word of more than 1 MiB");
    if (fields.size() > kMostRunArguments)
      refuse_by("run_file_size/values", place_of_line(line_), "a command of too many words");
  }

  void add_unknown(const ShellPart& part, const std::string& asked, const char* reason = kOnlyShell) {
    append(values_.mark(part.source, asked, line_, reason), kind_of(part), part.elements == '@');
  }

  void add_part(const ShellPart& part) {
    MaybeText text;
    std::string asked;
    if (part.kind == ShellPart::Kind::parameter) return add_parameter(part);
    if (part.kind == ShellPart::Kind::arithmetic)
      if (const auto number = values_.number_of(text_of(*part.word), line_, &asked))
        text = fmt::format("{}", *number);
    if (part.kind == ShellPart::Kind::output && values_.output_of)
      std::tie(text, asked) = values_.output_of(*part.commands);
    if (text) return append(*text, kind_of(part));
    add_unknown(part, asked);
  }

  /// Returns the values of $@, $#, $? and their like; none where they are not known.
  MaybeFields special(const ShellPart& part) {
    const MaybeFields given = values_.given_arguments();
    const bool counts = part.text == "#" || part.change == "length";
    if (part.elements != '\0' && part.change.empty()) return given;
    if (part.text == "?" && values_.state.status.success == true) return ShellFields{{"0"}};
    if (!given || !counts || std::ranges::any_of(*given, is_many)) return std::nullopt;
    return ShellFields{{fmt::format("{}", given->size())}};
  }

  /// Returns the fields of a value that an expansion takes: all, the first one, or that of its index. None
  /// where they are not known.
  MaybeFields chosen(const ShellPart& part, const ShellValue& value) {
    const ShellFields& all = value.fields;
    const auto count = std::ssize(all);
    const auto is_placed = [&](std::int64_t end) {
      return std::none_of(all.begin(), all.begin() + std::min(end, count), is_many);
    };
    if (part.elements != '\0' && part.change != "length") return all;
    if (part.elements != '\0')
      return is_placed(count) ? MaybeFields({{fmt::format("{}", count)}}) : std::nullopt;
    std::optional<std::int64_t> index = 0;
    if (part.index != nullptr) index = values_.number_of(text_of(*part.index), line_);
    if (index && *index < 0 && is_placed(count)) *index += count;
    if (!index || *index < 0 || values_.state.opaque.contains(part.text)) return std::nullopt;
    if (part.index != nullptr && !is_placed(*index + 1)) return std::nullopt;
    return *index < count ? ShellFields{all[static_cast<std::size_t>(*index)]} : ShellFields();
  }

  /// Adds the word of ${NAME:-word} and its like, where it takes the place of the value. Returns whether it
  /// does, or whether nobody knows.
  bool add_default(const ShellPart& part, bool is_outside, const ShellFields& values) {
    const bool is_empty = values.size() == 1 && values.front().text.empty();
    const bool is_there = !values.empty() && !(part.replaces_empty && is_empty);
    const bool is_open = is_outside && values_.name_outside(part.text).empty();
    if (is_open) add_unknown(part, "", "the script may have set other arguments");
    if (is_open) return true;
    if (part.change == "+") return add_other(part, is_outside, is_there, values);
    if (part.change == "?" && !is_there) values_.need(part.text, line_);
    if (part.change == "?" || is_there) return false;
    if (is_outside) values_.line_of_default = line_;
    if (part.change == "=") {
      const std::string value = text_of(*part.word);
      values_.open(part.text);
      values_.define(part.text, value, line_);
      append(value, kind_of(part));
    } else {
      add_word(part);
    }
    return true;
  }

  /// Adds the word of ${NAME:+word}, where there is a value.
  bool add_other(const ShellPart& part, bool is_outside, bool is_there, const ShellFields& values) {
    const bool may_lack = is_there && !values.front().text.empty() && may_be_empty(values.front().text);
    const std::string asked = is_outside ? values_.name_outside(part.text) : values_.variable_of(values);
    if (is_outside || may_lack) {
      add_unknown(part, asked, "whether it has a value is not known");
    } else if (is_there) {
      add_word(part);
    } else {
      append("", kind_of(part));
    }
    return true;
  }

  void add_word(const ShellPart& part) {
    add_parts(*part.word, kind_of(part));
    if (part.word->parts.empty()) append("", kind_of(part));
  }

  /// Adds the fields of an expansion: as one word, or each by itself.
  void add_fields(const ShellPart& part, const ShellFields& values) {
    const bool is_list = part.elements == '@' || (part.elements == '*' && !part.is_quoted);
    const int line = line_;
    if (values.empty() && !is_list) append("", kind_of(part));
    for (const ShellField& field : values) {
      const bool is_first = &field == &values.front();
      if (!is_first && is_list && form_ == Form::fields) is_open_ = false;
      if (!is_first && (!is_list || form_ != Form::fields)) append_to_field(" ", kind_of(part), false);
      line_ = field.line != 0 ? field.line : line;
      append(field.text, kind_of(part), field.may_be_many && (is_list || !part.is_quoted));
    }
    line_ = line;
  }

  void add_parameter(const ShellPart& part) {
    const bool is_special = !begins_shell_name(part.text[0]) && !whole_number(part.text);
    const ShellValuePointer value = is_special ? nullptr : values_.find(part.text);
    const bool is_outside = value == nullptr && !is_special;
    MaybeFields found = ShellFields();
    if (!is_outside) found = is_special ? special(part) : chosen(part, *value);
    if (has_default(part) && found && add_default(part, is_outside, *found)) return;
    if (is_outside) return add_unknown(part, values_.name_outside(part.text), kNotAssigned);
    if (found && !has_default(part)) found = changed(part, *std::move(found));
    if (found) return add_fields(part, *found);
    add_unknown(part, value != nullptr ? values_.variable_of(value->fields) : "");
  }

  /// Returns the fields that a change makes of those of an expansion; none where they are not known.
  MaybeFields changed(const ShellPart& part, ShellFields values) {
    const bool is_list = part.elements != '\0';
    const bool is_one_word = part.elements == '*' && part.is_quoted && values.size() > 1;
    if (is_one_word && !splits_at_blanks_) return std::nullopt;
    if (part.change.empty() || (is_list && part.change == "length")) return values;
    if (std::ranges::any_of(values, &ShellField::has_unknown) || (is_list && part.change == ":"))
      return std::nullopt;
    if (values.empty() && !is_list) values = {{""}};
    for (ShellField& field : values) {
      MaybeText text = changed_text(part, field.text);
      if (!text) return std::nullopt;
      field.text = std::move(*text);
    }
    return values;
  }

  /// Returns what a change makes of a text.
  MaybeText changed_text(const ShellPart& part, const std::string& text) {
    const char sign = part.change[0];
    if (part.change == "length")
      return is_ascii(text) ? MaybeText(fmt::format("{}", text.size())) : std::nullopt;
    if (sign == ':') return sliced(part, text);
    if (sign == '^' || sign == ',') return cased(text, part.change);
    const std::string wanted = values_.pattern(*part.word), other = part.second ? text_of(*part.second) : "";
    if ((wanted + other).find(kUnknownBegin) != std::string::npos) return std::nullopt;
    const std::size_t size = std::min(text.size(), kMostMatchedBytes);
    values_.charge(size * size * std::min(wanted.size(), kMostPatternBytes) / (sign == '/' ? 1 : 16), line_);
    return with_pattern_replaced(text, wanted, part.change, other);
  }

  /// Returns ${NAME:offset:length}.
  MaybeText sliced(const ShellPart& part, const std::string& text) {
    const auto size = std::ssize(text);
    const auto offset = values_.number_of(text_of(*part.word), line_);
    const auto length = part.second ? values_.number_of(text_of(*part.second), line_) : size;
    if (!offset || !length || !is_ascii(text)) return std::nullopt;
    const std::int64_t begin = *offset < 0 ? size + *offset : std::min(*offset, size);
    const std::int64_t end = *length < 0 ? size + *length : std::min(size, begin + std::min(*length, size));
    if (begin < 0) return "";
    if (end < begin) return std::nullopt;
    return text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }

  ShellValues& values_;
  Form form_;
  bool splits_at_blanks_ = true;
  bool is_open_ = false;  // the next text continues the last field
  int line_ = 0;
};

}  // namespace

ShellField ShellValues::whole(const ShellWord& word) {
  Expansion expansion(*this, Expansion::Form::whole);
  expansion.add(word);
  return {expansion.fields.front().text, word.line};
}

std::string ShellValues::text_of(const HereDocument& document) {
  if (document.is_literal) return document.text;
  ShellWord word;
  try {
    word = parse_document(document.text, document.line);
  } catch (const sim::Error&) {
    return mark("<<", "", document.line, "an expansion in it does not end");
  }
  return whole(word).text;
}

std::string ShellValues::pattern(const ShellWord& word) {
  Expansion expansion(*this, Expansion::Form::pattern);
  expansion.add(word);
  return expansion.fields.front().text;
}

ShellFields ShellValues::expand(const std::vector<ShellWord>& words) {
  Expansion expansion(*this, Expansion::Form::fields);
  for (const ShellWord& word : words) expansion.add(word);
  return std::move(expansion.fields);
}

}  // namespace verify
