// How a word becomes fields: the values of its expansions, their changes, and where they are split.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/shell_pattern.h"
#include "verify/run_arguments/shell_values.h"
#include "verify/run_arguments/shell_word_reader.h"

namespace verify {

namespace {

using ValueKind = ShellValue::Kind;
using Elements = ShellPart::Elements;

constexpr std::string_view kSeparators = " \t\n";

bool may_be_many(const ShellField& field) { return field.may_be_many; }

/// Whether nothing of a text is known, so that it may be empty.
bool may_be_empty(std::string_view text) {
  for (std::size_t end = 0; text.starts_with(kUnknownBegin); text.remove_prefix(end + 1))
    if ((end = text.find(kUnknownEnd)) == std::string_view::npos) break;
  return text.empty();
}

/// Whether each byte of a text is a character, as lengths and slices count characters.
bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (static_cast<unsigned char>(c) & 0x80U) == 0; });
}

std::string cased(std::string text, ShellChange change) {
  const bool is_upper = change == ShellChange::upper || change == ShellChange::upper_first;
  const bool is_first = change == ShellChange::upper_first || change == ShellChange::lower_first;
  const std::size_t count = is_first ? std::min<std::size_t>(text.size(), 1) : text.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    text[i] = static_cast<char>(is_upper ? std::toupper(c) : std::tolower(c));
  }
  return text;
}

}  // namespace

std::string ShellValues::joined(const ShellWord& word) {
  std::string text;
  bool is_first = true;
  for (const Piece& piece : pieces(word)) {
    text += (piece.begins_field && !is_first ? " " : "") + piece.text;
    is_first = false;
    if (text.size() > kMostShellValueBytes) refuse_size(word.line, "a word of more than 1 MiB");
  }
  charge(text.size(), word.line);
  return text;
}

std::string ShellValues::text_of(const HereDocument& document) {
  if (document.is_literal) return document.text;
  ShellWord word;
  try {
    word = ShellWordReader(document.text, document.line).document();
  } catch (const sim::Error&) {
    return mark("<<", "", document.line, "an expansion in it does not end");
  }
  return joined(word);
}

std::string ShellValues::pattern(const ShellWord& word) {
  std::string text;
  for (const Piece& piece : pieces(word))
    text += piece.kind == Piece::Kind::quoted ? pattern_of_text(piece.text) : piece.text;
  return text;
}

ShellValues::Pieces ShellValues::pieces(const ShellWord& word) {
  Pieces pieces;
  for (const ShellPart& part : word.parts) {
    if (pieces.size() > kMostRunArguments) refuse_size(word.line, "a word that becomes too many words");
    add(part, word.line, pieces);
  }
  return pieces;
}

/// Adds what is not known.
void ShellValues::add_unknown(const ShellPart& part, const std::string& asked, int line, Pieces& pieces,
                              const char* reason) {
  pieces.push_back({.kind = part.is_quoted ? Piece::Kind::quoted : Piece::Kind::value,
                    .text = mark(part.source, asked, line, reason),
                    .line = line,
                    .may_be_many = part.elements == Elements::all});
}

/// Adds what a part of a word becomes.
void ShellValues::add(const ShellPart& part, int line, Pieces& pieces) {
  using enum ShellPart::Kind;
  constexpr const char* kOnlyShell = "only a shell can tell its value";
  const Piece::Kind kind = part.is_quoted ? Piece::Kind::quoted : Piece::Kind::value;
  if (part.kind == literal) {
    pieces.push_back({.kind = part.is_quoted ? kind : Piece::Kind::literal, .text = part.text, .line = line});
  } else if (part.kind == arithmetic) {
    const auto number = number_of(joined(*part.word), line);
    const std::string asked = asked_;
    if (number) pieces.push_back({.kind = kind, .text = fmt::format("{}", *number), .line = line});
    if (!number)
      add_unknown(part, asked, line, pieces, asked.empty() ? kOnlyShell : "its numbers are not all known");
  } else if (part.kind == output && output_of) {
    auto [text, asked] = output_of(*part.commands);
    if (text) pieces.push_back({.kind = kind, .text = std::move(*text), .line = line});
    if (!text) add_unknown(part, asked, line, pieces, kOnlyShell);
  } else if (part.kind == parameter && !part.is_indirect) {
    add_parameter(part, line, pieces);
  } else if (part.kind == parameter) {
    const auto name = find(part.text);
    const std::string text = name != nullptr && name->fields.size() == 1 ? name->fields.front().text : "";
    const bool is_name = !text.empty() && std::ranges::all_of(text, is_of_shell_name);
    ShellPart other = part;
    other.is_indirect = false;
    other.text = text;
    if (is_name) return add_parameter(other, line, pieces);
    add_unknown(part, name == nullptr ? part.text : variable_of(text), line, pieces, kNotAssigned);
  } else {
    add_unknown(part, "", line, pieces, kOnlyShell);
  }
}

/// Adds the word of an expansion. Its text is split where the expansion is not quoted.
void ShellValues::add_word(const ShellPart& part, Pieces& pieces) {
  Pieces inner = this->pieces(*part.word);
  if (inner.empty() && part.is_quoted) inner.push_back({.kind = Piece::Kind::quoted, .text = {}});
  for (Piece& piece : inner) {
    if (part.is_quoted) piece.kind = Piece::Kind::quoted;
    if (piece.kind == Piece::Kind::literal) piece.kind = Piece::Kind::value;
    pieces.push_back(std::move(piece));
  }
}

/// Returns the values of $@, $#, $? and their like; none where they are not known.
std::optional<ShellFields> ShellValues::special(const ShellPart& part, int line) {
  const ShellArguments& arguments = state.calls.back().arguments;
  ShellFields given;
  bool are_known = arguments.are_known;
  if (are_known) given = arguments.fields;
  const bool are_set = !are_known && arguments.shifted && set_.contains("1");  // --set gives them
  for (std::int64_t i = 1; are_set && set_.contains(fmt::format("{}", i)); ++i)
    if (i > *arguments.shifted) given.push_back(set_.at(fmt::format("{}", i))->fields.front());
  are_known = are_known || are_set;
  const bool are_placed = are_known && std::ranges::none_of(given, may_be_many);
  if (part.text == "@" || part.text == "*") {
    if (part.change == ShellChange::length && !are_placed) return std::nullopt;
    return are_known ? std::optional(given) : std::nullopt;
  }
  if (part.text == "#" && are_placed) return ShellFields{{fmt::format("{}", given.size()), line}};
  if (part.text == "?" && state.status.success == true) return ShellFields{{"0", line}};
  if (part.text == "0" && !arguments.name.empty()) return ShellFields{{arguments.name, line}};
  return std::nullopt;
}

/// Returns the fields of a value that an expansion takes: all, the first one, or that of its index. None
/// where they are not known.
std::optional<ShellFields> ShellValues::chosen(const ShellPart& part, const ShellValue& value, int line) {
  const auto is_placed = [&](std::int64_t end) {
    return std::none_of(value.fields.begin(), value.fields.begin() + std::min(end, std::ssize(value.fields)),
                        may_be_many);
  };
  const bool is_list = part.elements != Elements::one;
  if (part.change == ShellChange::keys || (is_list && part.change == ShellChange::length)) {
    if (!is_placed(std::ssize(value.fields))) return std::nullopt;
    if (part.change == ShellChange::length)
      return ShellFields{{fmt::format("{}", value.fields.size()), line}};
  }
  if (is_list && value.kind == ValueKind::table && value.keys.size() > 1) {
    const std::string note = fmt::format(
        "line {}: the {} of {} are taken in {}, and a shell has an order of its own", line,
        part.change == ShellChange::keys ? "keys" : "elements", part.text,
        part.change == ShellChange::keys ? "alphabetical order" : "the alphabetical order of its keys");
    if (std::ranges::find(notes_, note) == notes_.end() && notes_.size() < 5) notes_.push_back(note);
  }
  if (part.change == ShellChange::keys) {
    ShellFields keys;
    for (std::size_t i = 0; i < value.fields.size(); ++i)
      keys.push_back({value.kind == ValueKind::table ? value.keys[i] : fmt::format("{}", i), line});
    return keys;
  }
  if (is_list) return value.fields;
  if (part.index == nullptr) {
    if (value.kind == ValueKind::table) return std::nullopt;
    return value.fields.empty() ? ShellFields() : ShellFields{value.fields.front()};
  }
  const std::string key = joined(*part.index);
  if (key.find(kUnknownBegin) != std::string::npos) return std::nullopt;
  if (value.kind == ValueKind::table) {
    const auto found = std::ranges::lower_bound(value.keys, key);
    const bool is_there = found != value.keys.end() && *found == key;
    return is_there ? ShellFields{value.fields[static_cast<std::size_t>(found - value.keys.begin())]}
                    : ShellFields();
  }
  auto index = number_of(key, line);
  if (index && *index < 0 && is_placed(std::ssize(value.fields))) *index += std::ssize(value.fields);
  if (!index || *index < 0 || !is_placed(*index + 1)) return std::nullopt;
  if (*index >= std::ssize(value.fields)) return ShellFields();
  return ShellFields{value.fields[static_cast<std::size_t>(*index)]};
}

/// Adds the word of ${NAME:-word} and its like, where it takes the place of the value. Returns whether it
/// does, or whether nobody knows.
bool ShellValues::add_default(const ShellPart& part, bool is_outside, const ShellFields& fields, int line,
                              Pieces& pieces) {
  using enum ShellChange;
  const std::string text = fields.size() == 1 ? fields.front().text : fields.empty() ? "" : "-";
  const bool is_there = !is_outside && (part.replaces_empty ? !text.empty() : !fields.empty());
  const bool may_lack = is_outside || (is_there && !text.empty() && may_be_empty(text));
  if (part.change == use_other && may_lack) {
    const std::string asked = is_outside ? name_outside(part.text) : variable_of(text);
    add_unknown(part, asked, line, pieces, "whether it has a value is not known");
    return true;
  }
  if (part.change == use_other) {
    if (is_there) add_word(part, pieces);
    if (!is_there && part.is_quoted) pieces.push_back({.kind = Piece::Kind::quoted, .text = {}});
    return true;
  }
  if (part.change == demand) {
    if (!is_there) need(part.text, line);
    if (!is_outside && !is_there)
      add_unknown(part, "", line, pieces, "the script ends here, since it is empty");
    return !is_outside && !is_there;
  }
  if (is_there) return false;
  if (is_outside) line_of_default_ = line;
  const std::size_t begin = pieces.size();
  add_word(part, pieces);
  if (part.change != assign_default) return true;
  std::string all;
  for (std::size_t i = begin; i < pieces.size(); ++i) all += pieces[i].text;
  open(part.text);
  if (part.index == nullptr) define(part.text, all, line);
  if (part.index != nullptr) forget(part.text, line, "an element of it is a default");
  return true;
}

void ShellValues::add_parameter(const ShellPart& part, int line, Pieces& pieces) {
  using enum ShellChange;
  const bool is_special =
      !begins_shell_name(part.text.front()) &&
      (part.text == "0" || part.text.find_first_not_of("0123456789") != std::string::npos);
  const auto value = is_special ? nullptr : find(part.text);
  const bool is_outside = value == nullptr && !is_special;
  std::optional<ShellFields> fields = is_special         ? special(part, line)
                                      : value != nullptr ? chosen(part, *value, line)
                                                         : ShellFields();
  const bool has_word = part.change == use_default || part.change == assign_default ||
                        part.change == use_other || part.change == demand;
  if (has_word && fields && add_default(part, is_outside, *fields, line, pieces)) return;
  if (is_outside) return add_unknown(part, name_outside(part.text), line, pieces, kNotAssigned);
  std::string asked = fields ? variable_of(*fields) : value != nullptr ? variable_of(value->fields) : "";
  const bool is_changed = part.change != none && part.change != keys && !has_word &&
                          !(part.change == length && part.elements != Elements::one && !is_special);
  if (fields && is_changed) fields = changed(part, *std::move(fields), line);
  const bool is_one_text = part.elements == Elements::joined && part.is_quoted;
  if (!fields || (is_one_text && fields->size() > 1 && !splits_at_blanks()))
    return add_unknown(part, asked, line, pieces, "only a shell can tell its value");
  const bool is_list =
      part.elements == Elements::all || (part.elements == Elements::joined && !part.is_quoted);
  Piece piece{.kind = part.is_quoted ? Piece::Kind::quoted : Piece::Kind::value, .text = {}};
  for (ShellField& field : *fields) {
    const bool is_first = &field == &fields->front();
    if (is_list || is_first) piece.text.clear();
    if (!is_list && !is_first) piece.text += ' ';
    piece.text += field.text;
    piece.line = field.line != 0 ? field.line : line;
    piece.begins_field = !is_first;
    piece.may_be_many = field.may_be_many && (is_list || !part.is_quoted);
    if (is_list) pieces.push_back(piece);
  }
  piece.begins_field = false;
  if (!is_list && (!fields->empty() || part.is_quoted)) pieces.push_back(std::move(piece));
}

/// Returns the elements of ${ARRAY[@]:offset:length} and "${@:offset}".
std::optional<ShellFields> ShellValues::sliced(const ShellPart& part, const ShellFields& fields, int line) {
  const auto number = [&](const ShellWord& word) { return number_of(joined(word), line); };
  const auto offset = number(*part.word);
  const auto length = part.second ? number(*part.second) : std::ssize(fields);
  const bool is_of_arguments = part.text == "@" || part.text == "*";  // the argument 0 is the script
  if (!offset || !length || *length < 0 || std::ranges::any_of(fields, may_be_many)) return std::nullopt;
  if (is_of_arguments && *offset < 1) return std::nullopt;
  const std::int64_t count = std::ssize(fields);
  const std::int64_t first = is_of_arguments ? *offset - 1 : *offset;
  const std::int64_t begin = first < 0 ? count + first : std::min(first, count);
  if (begin < 0) return ShellFields();
  const std::int64_t end = std::min(count, begin + std::min(*length, count));
  return ShellFields(fields.begin() + begin, fields.begin() + end);
}

/// Returns what a change makes of a text.
std::optional<std::string> ShellValues::changed_text(const ShellPart& part, const std::string& text,
                                                     int line) {
  using enum ShellChange;
  if (part.change == length)
    return is_ascii(text) ? std::optional(fmt::format("{}", text.size())) : std::nullopt;
  if (part.change >= upper_first && part.change <= lower) return cased(text, part.change);
  if (part.change == slice) {
    const auto offset = number_of(joined(*part.word), line);
    const auto size = std::ssize(text);
    const auto count = part.second ? number_of(joined(*part.second), line) : size;
    if (!offset || !count || !is_ascii(text)) return std::nullopt;
    const std::int64_t begin = *offset < 0 ? size + *offset : std::min(*offset, size);
    if (begin < 0) return "";
    const std::int64_t end = *count < 0 ? size + *count : std::min(size, begin + std::min(*count, size));
    if (end < begin) return std::nullopt;
    return text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }
  const std::string wanted = pattern(*part.word);
  const std::string other = part.second ? joined(*part.second) : "";
  if ((wanted + other).find(kUnknownBegin) != std::string::npos) return std::nullopt;
  const bool is_anywhere = part.change == replace || part.change == replace_all;
  if (wanted.empty() && is_anywhere) return text;
  constexpr std::size_t kStepsOfAByte = 64;
  charge(text.size() * (is_anywhere ? std::min(text.size(), kMostMatchedBytes) : 1) *
             std::min(wanted.size(), kMostPatternBytes) / kStepsOfAByte,
         line);
  return with_pattern_replaced(text, wanted, part.change, other);
}

/// Returns the fields that a change makes of those of an expansion; none where they are not known.
std::optional<ShellFields> ShellValues::changed(const ShellPart& part, ShellFields fields, int line) {
  if (std::ranges::any_of(fields, &ShellField::has_unknown)) return std::nullopt;
  const bool is_list = part.elements != Elements::one;
  if (is_list && part.change == ShellChange::length)
    return ShellFields{{fmt::format("{}", fields.size()), line}};
  if (is_list && part.change == ShellChange::slice) return sliced(part, fields, line);
  if (fields.empty() && !is_list) fields = {{"", line}};
  for (ShellField& field : fields) {
    std::optional<std::string> text = changed_text(part, field.text, line);
    if (!text) return std::nullopt;
    field.text = std::move(*text);
  }
  return fields;
}

/// Whether IFS has the value that it has when a shell begins.
bool ShellValues::splits_at_blanks() const {
  const auto own = state.variables->find("IFS");
  return own == state.variables->end() || own->second->kind == ValueKind::unset ||
         (own->second->fields.size() == 1 && own->second->fields.front().text == kSeparators);
}

/// Takes the pieces of a word apart where a shell does. Where IFS has another value, that is not followed.
ShellFields ShellValues::split(const Pieces& pieces, int line) {
  ShellFields fields;
  bool is_open = false;  // the next text continues the last field
  const auto append = [&](std::string_view text, const Piece& piece, bool is_many) {
    if (!is_open) fields.push_back({"", piece.line});
    if (fields.back().text.empty()) fields.back().line = piece.line;
    fields.back().text += text;
    fields.back().may_be_many = fields.back().may_be_many || is_many;
    is_open = true;
    charge(text.size() + sizeof(ShellField), piece.line);
    if (fields.back().text.size() > kMostShellValueBytes) refuse_size(line, "a word of more than 1 MiB");
  };
  const bool is_plain = splits_at_blanks();
  for (const Piece& piece : pieces) {
    if (piece.begins_field) is_open = false;
    const bool is_literal = piece.kind == Piece::Kind::literal;
    std::string_view text = piece.text;
    if (piece.kind == Piece::Kind::value && !is_plain) {
      append(
          mark(shown(text), variable_of(text), line, "IFS separates its words in a way that is not followed"),
          piece, true);
    } else if (piece.kind == Piece::Kind::value) {
      const bool is_many = piece.may_be_many || text.find(kUnknownBegin) != std::string_view::npos;
      while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of(kSeparators), text.size());
        if (end > 0) append(text.substr(0, end), piece, is_many);
        text.remove_prefix(end);
        if (!text.empty()) is_open = false;
        text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
      }
    } else if (!text.empty() || piece.kind == Piece::Kind::quoted) {
      append(text, piece,
             piece.may_be_many || (is_literal && text.find_first_of("*?[") != std::string_view::npos));
    }
    if (fields.size() > kMostRunArguments) refuse_size(line, "a word that becomes too many words");
  }
  return fields;
}

ShellFields ShellValues::expand(const ShellWord& word) { return split(pieces(word), word.line); }

ShellFields ShellValues::expand(const std::vector<ShellWord>& words) {
  ShellFields all;
  for (const ShellWord& word : words) {
    std::ranges::move(expand(word), std::back_inserter(all));
    if (all.size() > kMostRunArguments) refuse_size(word.line, "a command of too many words");
  }
  return all;
}

}  // namespace verify
