// How a word becomes fields: the values of its expansions, their changes, and where they are split.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "verify/run_arguments/shell_pattern.h"
#include "verify/run_arguments/shell_values.h"

namespace verify {

namespace {

constexpr std::string_view kSeparators = " \t\n";
constexpr const char* kOnlyShell = "only a shell can tell its value";

/// Whether nothing of a text is known, so that it may be empty.
bool may_be_empty(std::string_view text) {
  for (std::size_t end = 0; text.starts_with(kUnknownBegin) && end != std::string_view::npos;) {
    end = text.find(kUnknownEnd);
    text.remove_prefix(std::min(end, text.size() - 1) + 1);
  }
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
  return part.change.size() == 1 && std::string_view("-=+?").find(part.change[0]) != std::string_view::npos;
}

}  // namespace

std::string ShellValues::joined(const ShellWord& word) {
  std::string text;
  const Pieces all = pieces(word);
  for (const Piece& piece : all)
    text += (piece.begins_field && &piece != &all.front() ? " " : "") + piece.text;
  charge(text.size(), word.line);
  if (text.size() > kMostShellValueBytes) refuse_size(word.line, "a word of more than 1 MiB");
  return text;
}

std::string ShellValues::text_of(const HereDocument& document) {
  if (document.is_literal) return document.text;
  ShellWord word;
  try {
    word = parse_document(document.text, document.line);
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
                    .may_be_many = part.elements == '@'});
}

/// Adds what a part of a word becomes.
void ShellValues::add(const ShellPart& part, int line, Pieces& pieces) {
  using enum ShellPart::Kind;
  const Piece::Kind value = part.is_quoted ? Piece::Kind::quoted : Piece::Kind::value;
  std::optional<std::string> text;
  std::string asked;
  if (part.kind == literal) {
    pieces.push_back(
        {.kind = part.is_quoted ? value : Piece::Kind::literal, .text = part.text, .line = line});
    return;
  }
  if (part.kind == parameter && !part.is_indirect) return add_parameter(part, line, pieces);
  if (part.kind == parameter) {
    const ShellValuePointer name = find(part.text);
    ShellPart other = part;
    other.is_indirect = false;
    if (name != nullptr && !name->fields.empty()) other.text = name->fields.front().text;
    if (begins_shell_name(other.text[0]) && other.text != part.text)
      return add_parameter(other, line, pieces);
    asked = part.text;
  } else if (part.kind == arithmetic) {
    if (const auto number = number_of(joined(*part.word), line)) text = fmt::format("{}", *number);
    asked = asked_;
  } else if (part.kind == output && output_of) {
    std::tie(text, asked) = output_of(*part.commands);
  }
  if (text) pieces.push_back({.kind = value, .text = std::move(*text), .line = line});
  if (!text) add_unknown(part, asked, line, pieces, kOnlyShell);
}

/// Adds the word of an expansion. Its text is split where the expansion is not quoted.
void ShellValues::add_word(const ShellPart& part, Pieces& pieces) {
  Pieces inner = this->pieces(*part.word);
  if (inner.empty() && part.is_quoted) inner.push_back({.kind = Piece::Kind::quoted});
  for (Piece& piece : inner) {
    if (part.is_quoted) piece.kind = Piece::Kind::quoted;
    if (piece.kind == Piece::Kind::literal) piece.kind = Piece::Kind::value;
    pieces.push_back(std::move(piece));
  }
}

/// Returns the values of $@, $#, $? and their like; none where they are not known.
std::optional<ShellFields> ShellValues::special(const ShellPart& part, int line) {
  const ShellArguments& arguments = state.calls.back().arguments;
  ShellFields given = arguments.fields;
  const bool are_set = !arguments.are_known && arguments.shifted && set_.contains("1");  // --set gives them
  for (std::int64_t i = 1; are_set && set_.contains(fmt::format("{}", i)); ++i)
    if (i > *arguments.shifted) given.push_back(set_.at(fmt::format("{}", i))->fields.front());
  const bool are_known = arguments.are_known || are_set;
  const bool are_counted = are_known && std::ranges::none_of(given, &ShellField::may_be_many);
  const std::string count = fmt::format("{}", given.size());
  if (part.elements != '\0' && part.change.empty()) return are_known ? std::optional(given) : std::nullopt;
  if (are_counted && (part.text == "#" || part.change == "length")) return ShellFields{{count, line}};
  if (part.text == "?" && state.status.success == true) return ShellFields{{"0", line}};
  if (!are_counted || part.elements == '\0' || part.change != ":" || part.second != nullptr)
    return std::nullopt;
  const auto offset = number_of(joined(*part.word), line);  // "${@:2}"
  if (!offset || *offset < 1) return std::nullopt;
  given.erase(given.begin(), given.begin() + std::min(*offset - 1, std::ssize(given)));
  return given;
}

/// Returns the fields of a value that an expansion takes: all, the first one, or that of its index. None where
/// they are not known.
std::optional<ShellFields> ShellValues::chosen(const ShellPart& part, const ShellValue& value, int line) {
  const ShellFields& fields = value.fields;
  const auto count = std::ssize(fields);
  const auto is_placed = [&](std::int64_t end) {
    return std::none_of(fields.begin(), fields.begin() + std::min(end, count),
                        [](const ShellField& field) { return field.may_be_many; });
  };
  if (part.elements != '\0' && part.change == "length")
    return is_placed(count) ? std::optional(ShellFields{{fmt::format("{}", count), line}}) : std::nullopt;
  if (part.elements != '\0') return fields;
  std::optional<std::int64_t> index = 0;
  if (part.index != nullptr) index = number_of(joined(*part.index), line);
  if (index && *index < 0 && is_placed(count)) *index += count;
  const bool is_known = index && *index >= 0 && (part.index == nullptr || is_placed(*index + 1));
  if (!is_known || state.opaque.contains(part.text)) return std::nullopt;
  return *index < count ? ShellFields{fields[static_cast<std::size_t>(*index)]} : ShellFields();
}

/// Adds the word of ${NAME:-word} and its like, where it takes the place of the value. Returns whether it does,
/// or whether nobody knows.
bool ShellValues::add_default(const ShellPart& part, bool is_outside, const ShellFields& fields, int line,
                              Pieces& pieces) {
  const std::string text = fields.empty() ? "" : fields.front().text;
  const bool is_empty = fields.empty() || (part.replaces_empty && fields.size() == 1 && text.empty());
  const bool is_there = !is_outside && !is_empty;
  const bool may_lack = is_outside || (is_there && fields.size() == 1 && !text.empty() && may_be_empty(text));
  if (part.change == "+") {
    const std::string asked = is_outside ? name_outside(part.text) : variable_of(fields);
    if (may_lack) add_unknown(part, asked, line, pieces, "whether it has a value is not known");
    if (!may_lack && is_there) add_word(part, pieces);
    if (!may_lack && !is_there && part.is_quoted) pieces.push_back({.kind = Piece::Kind::quoted});
    return true;
  }
  if (is_there || part.change == "?") {
    if (!is_there) need(part.text, line);
    return false;
  }
  if (is_outside) line_of_default_ = line;
  const std::size_t begin = pieces.size();
  add_word(part, pieces);
  if (part.change != "=") return true;
  std::string all;
  for (std::size_t i = begin; i < pieces.size(); ++i) all += pieces[i].text;
  open(part.text);
  define(part.text, all, line);
  return true;
}

/// Adds the fields of an expansion: as one word, or each by itself.
void ShellValues::add_fields(const ShellPart& part, const ShellFields& fields, int line, Pieces& pieces) {
  const bool is_list = part.elements == '@' || (part.elements == '*' && !part.is_quoted);
  Piece piece{.kind = part.is_quoted ? Piece::Kind::quoted : Piece::Kind::value, .line = line};
  for (const ShellField& field : fields) {
    const bool is_first = &field == &fields.front();
    piece.text = is_list || is_first ? field.text : piece.text + " " + field.text;
    if (field.line != 0) piece.line = field.line;
    piece.begins_field = is_list && !is_first;
    piece.may_be_many = field.may_be_many && (is_list || !part.is_quoted);
    if (is_list) pieces.push_back(piece);
  }
  if (!is_list && (!fields.empty() || part.is_quoted)) pieces.push_back(std::move(piece));
}

void ShellValues::add_parameter(const ShellPart& part, int line, Pieces& pieces) {
  const bool is_special = !begins_shell_name(part.text[0]) && !whole_number(part.text);
  const ShellValuePointer value = is_special ? nullptr : find(part.text);
  const bool is_outside = value == nullptr && !is_special;
  std::optional<ShellFields> fields = ShellFields();
  if (is_special) fields = special(part, line);
  if (value != nullptr) fields = chosen(part, *value, line);
  if (has_default(part) && fields && add_default(part, is_outside, *fields, line, pieces)) return;
  if (is_outside) return add_unknown(part, name_outside(part.text), line, pieces, kNotAssigned);
  const std::string asked = fields             ? variable_of(*fields)
                            : value != nullptr ? variable_of(value->fields)
                                               : "";
  const bool is_counted = part.elements != '\0' && (part.change == "length" || is_special);
  if (fields && !part.change.empty() && !has_default(part) && !is_counted)
    fields = changed(part, *std::move(fields), line);
  if (fields && fields->size() > 1 && part.elements == '*' && part.is_quoted && !splits_at_blanks())
    fields.reset();
  if (!fields) return add_unknown(part, asked, line, pieces, kOnlyShell);
  add_fields(part, *fields, line, pieces);
}

/// Returns what a change makes of a text.
std::optional<std::string> ShellValues::changed_text(const ShellPart& part, const std::string& text,
                                                     int line) {
  const char sign = part.change[0];
  if (part.change == "length")
    return is_ascii(text) ? std::optional(fmt::format("{}", text.size())) : std::nullopt;
  if (sign == '^' || sign == ',') return cased(text, part.change);
  if (sign == ':') return sliced(part, text, line);
  const std::string wanted = pattern(*part.word);
  const std::string other = part.second ? joined(*part.second) : "";
  if ((wanted + other).find(kUnknownBegin) != std::string::npos) return std::nullopt;
  constexpr std::size_t kStepsOfAByte = 64;
  const std::size_t starts = sign == '/' ? std::min(text.size(), kMostMatchedBytes) : 1;
  charge(text.size() * starts * std::min(wanted.size(), kMostPatternBytes) / kStepsOfAByte, line);
  return with_pattern_replaced(text, wanted, part.change, other);
}

/// Returns ${NAME:offset:length}.
std::optional<std::string> ShellValues::sliced(const ShellPart& part, const std::string& text, int line) {
  const auto size = std::ssize(text);
  const auto offset = number_of(joined(*part.word), line);
  const auto length = part.second ? number_of(joined(*part.second), line) : size;
  if (!offset || !length || !is_ascii(text)) return std::nullopt;
  const std::int64_t begin = *offset < 0 ? size + *offset : std::min(*offset, size);
  if (begin < 0) return "";
  const std::int64_t end = *length < 0 ? size + *length : std::min(size, begin + std::min(*length, size));
  if (end < begin) return std::nullopt;
  return text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

/// Returns the fields that a change makes of those of an expansion; none where they are not known.
std::optional<ShellFields> ShellValues::changed(const ShellPart& part, ShellFields fields, int line) {
  const bool is_list = part.elements != '\0';
  if (std::ranges::any_of(fields, &ShellField::has_unknown) || (is_list && part.change == ":"))
    return std::nullopt;
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
  if (own == state.variables->end() || own->second->kind == ShellValue::Kind::unset) return true;
  return own->second->fields.size() == 1 && own->second->fields.front().text == kSeparators;
}

/// Takes the pieces of a word apart where a shell does. Where IFS has another value, that is not followed.
void ShellValues::split(const Pieces& pieces, ShellFields& fields) {
  bool is_open = false;  // the next text continues the last field
  const auto append = [&](std::string_view text, const Piece& piece, bool is_many) {
    if (!is_open) fields.push_back({"", piece.line});
    if (fields.back().text.empty()) fields.back().line = piece.line;
    fields.back().text += text;
    fields.back().may_be_many = fields.back().may_be_many || is_many;
    is_open = true;
    charge(text.size() + sizeof(ShellField), piece.line);
    if (fields.back().text.size() > kMostShellValueBytes)
      refuse_size(piece.line, "a word of more than 1 MiB");
  };
  const bool splits = splits_at_blanks();
  for (const Piece& piece : pieces) {
    is_open = is_open && !piece.begins_field;
    std::string_view text = piece.text;
    const bool has_unknown = text.find(kUnknownBegin) != std::string_view::npos;
    if (piece.kind == Piece::Kind::value && !splits) {
      append(mark(shown(text), variable_of({{piece.text}}), piece.line, "IFS has another value"), piece,
             true);
    } else if (piece.kind == Piece::Kind::value) {
      while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of(kSeparators), text.size());
        if (end > 0) append(text.substr(0, end), piece, piece.may_be_many || has_unknown);
        text.remove_prefix(end);
        is_open = is_open && text.empty();
        text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
      }
    } else if (!text.empty() || piece.kind == Piece::Kind::quoted) {
      const bool is_pattern =
          piece.kind == Piece::Kind::literal && text.find_first_of("*?[") != std::string_view::npos;
      append(text, piece, piece.may_be_many || is_pattern);
    }
    if (fields.size() > kMostRunArguments) refuse_size(piece.line, "a command of too many words");
  }
}

ShellFields ShellValues::expand(const std::vector<ShellWord>& words) {
  ShellFields fields;
  for (const ShellWord& word : words) split(pieces(word), fields);
  return fields;
}

}  // namespace verify
