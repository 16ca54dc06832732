#include "verify/memory/named_vocabulary.h"

#include <cctype>
#include <fmt/format.h>
#include <string_view>
#include <vector>

#include "sim/base/printable_text.h"
#include "verify/output/table_rows.h"
#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

/// The rows of the table: name, entries and source.
const std::vector<TextRow>& tokenizer_rows() {
  static const std::vector<TextRow> rows = rows_of_table(
#include "tokenizers.tsv.inc"
  );
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
    for (const TextRow& row : tokenizer_rows()) {
      if (!has_name(searched, row.at(0))) continue;
      return NamedVocabulary{.entries = whole_number(row.at(1)).value(),
                             .argument = fmt::format("--{} {}", argument, sim::printable_text(text)),
                             .source = row.at(2)};
    }
  }
  return std::nullopt;
}

}  // namespace verify
