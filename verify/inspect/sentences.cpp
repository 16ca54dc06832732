#include "verify/inspect/sentences.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <utility>

#include "sim/base/check.h"
#include "verify/output/phrases.h"
#include "verify/output/table_rows.h"

namespace verify {

namespace {

constexpr std::string_view kSentences =
#include "sentences.tsv.inc"
    ;

/// Returns the part of a text before a sign, and takes it and the sign from the text.
std::string_view taken_before(std::string_view& text, char sign) {
  const std::string_view part = text.substr(0, text.find(sign));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

std::map<std::string, std::string, std::less<>> texts_by_name() {
  std::map<std::string, std::string, std::less<>> texts;
  for (TextRow& row : rows_of_table(kSentences)) texts[row[0]] = std::move(row[1]);
  return texts;
}

struct Writer {
  std::initializer_list<Fact> all;
  const Fact* last = nullptr;  // the ranks or the number that were written last

  const Fact& named(std::string_view name) const {
    const Fact* const found = std::ranges::find(all, name, &Fact::name);
    SIM_CHECK(found != all.end());
    return *found;
  }

  /// Writes what stands in a place that names a fact.
  std::string value(std::string_view noun) {
    std::string name(taken_before(noun, ' '));
    const bool is_capital = std::isupper(static_cast<unsigned char>(name.front())) != 0;
    name.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(name.front())));
    const Fact& fact = named(name);
    if (const auto* const text = std::get_if<std::string>(&fact.value))
      return is_capital ? capital(*text) : *text;
    last = &fact;
    if (const auto* const ranks = std::get_if<std::vector<int>>(&fact.value))
      return is_capital ? capital(ranks_words(*ranks)) : ranks_words(*ranks);
    const std::int64_t number = std::get<std::int64_t>(fact.value);
    return noun.empty() ? std::to_string(number) : counted(number, std::string(noun).c_str());
  }

  /// Returns the one of two words that agrees with a fact.
  std::string choice(std::string_view words) const {
    const Fact* const fact = words.find(':') < words.find('|') ? &named(taken_before(words, ':')) : last;
    SIM_CHECK(fact != nullptr);
    const auto* const ranks = std::get_if<std::vector<int>>(&fact->value);
    const bool is_one = ranks != nullptr ? ranks->size() == 1 : std::get<std::int64_t>(fact->value) == 1;
    const std::string_view one = taken_before(words, '|');
    return std::string(is_one ? one : words);
  }
};

}  // namespace

std::string sentence(std::string_view name, std::initializer_list<Fact> facts) {
  static const std::map<std::string, std::string, std::less<>> texts = texts_by_name();
  const auto text = texts.find(name);
  SIM_CHECK(text != texts.end());
  Writer known{.all = facts};
  std::string written;
  for (std::string_view rest = text->second; !rest.empty();) {
    written += taken_before(rest, '{');
    if (rest.empty()) break;
    const std::string_view place = taken_before(rest, '}');
    written += place.find('|') == std::string_view::npos ? known.value(place) : known.choice(place);
  }
  return written;
}

}  // namespace verify
