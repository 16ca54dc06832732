#include "verify/memory/named_vocabulary.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <string_view>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/printable_text.h"

namespace verify {

namespace {

struct TokenizerRow {
  std::string_view name;
  std::int64_t entries = 0;
  std::string_view source = {};
};

/// Returns the part of a text before a sign, and takes both away from the text.
std::string_view cut(std::string_view& text, char sign) {
  const std::size_t end = std::min(text.find(sign), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::vector<TokenizerRow> rows_of(std::string_view table) {
  std::vector<TokenizerRow> rows;
  while (!table.empty()) {
    std::string_view line = cut(table, '\n');
    if (line.empty() || line.starts_with('#')) continue;
    TokenizerRow row{.name = cut(line, '\t')};
    const std::string_view entries = cut(line, '\t');
    const auto [end, error] = std::from_chars(entries.data(), entries.data() + entries.size(), row.entries);
    row.source = line;
    CHECK(error == std::errc() && end == entries.data() + entries.size() && row.entries > 0);
    rows.push_back(row);
  }
  return rows;
}

const std::vector<TokenizerRow>& tokenizer_rows() {
  static constexpr std::string_view kTable =
#include "tokenizers.tsv.inc"
      ;
  static const std::vector<TokenizerRow> rows = rows_of(kTable);
  return rows;
}

/// Returns the text in small letters, with "-" in place of "_".
std::string in_small_letters(std::string text) {
  for (char& c : text) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Whether a text has a name that is no part of a longer word, nor of the number of another version.
bool has_name(std::string_view text, std::string_view name) {
  const auto has_word_at = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool has_more = has_word_at(end) || (text.substr(end).starts_with('.') && has_word_at(end + 1) &&
                                               std::isdigit(static_cast<unsigned char>(text[end + 1])) != 0);
    if (!has_more && !(at > 0 && has_word_at(at - 1))) return true;
  }
  return false;
}

}  // namespace

std::optional<NamedVocabulary> named_vocabulary(const RunValues& values) {
  for (const char* argument : {"tokenizer-type", "tokenizer-model", "tokenizer-name-or-path", "vocab-file"}) {
    const std::string text = values.text(argument), searched = in_small_letters(text);
    for (const TokenizerRow& row : tokenizer_rows()) {
      if (!has_name(searched, row.name)) continue;
      return NamedVocabulary{.entries = row.entries,
                             .argument = fmt::format("--{} {}", argument, sim::printable_text(text)),
                             .source = std::string(row.source)};
    }
  }
  return std::nullopt;
}

}  // namespace verify
