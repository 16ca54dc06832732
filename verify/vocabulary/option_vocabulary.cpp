#include "verify/vocabulary/option_vocabulary.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <map>

#include "sim/base/check.h"
#include "verify/output/refusal_table.h"
#include "verify/output/table_rows.h"

namespace verify {

namespace {

constexpr std::string_view kOptions =
#include "options.tsv.inc"
    ;
constexpr std::string_view kSections =
#include "option_sections.tsv.inc"
    ;
constexpr std::string_view kReaders =
#include "option_readers.tsv.inc"
    ;

struct ReaderName {
  std::string word;  // in the table
  Reader reader;
  std::string text;  // as users know it; "" where they do not
};

std::string text_of_cell(const std::string& cell) { return cell == "-" ? "" : cell; }

Reader readers_in(const std::string& cell, const std::vector<ReaderName>& names) {
  Reader readers = Reader{};
  for (const std::string& word : words_of_cell(cell)) {
    if (word == "everybody") return kEverybody;
    const auto found = std::ranges::find(names, word, &ReaderName::word);
    SIM_CHECK(found != names.end());
    readers = readers | found->reader;
  }
  return readers;
}

const std::vector<ReaderName>& reader_names() {
  static const std::vector<ReaderName> names = [] {
    std::vector<ReaderName> all;
    for (const TextRow& row : rows_of_table(kReaders)) {
      // Only a row of Reader has a bit of its own: there are more rows than bits.
      const Reader readers =
          row.at(1) == "itself" ? static_cast<Reader>(1U << all.size()) : readers_in(row.at(1), all);
      all.push_back({row.at(0), readers, text_of_cell(row.at(2))});
    }
    return all;
  }();
  return names;
}

Reader readers_of(const std::string& cell) { return readers_in(cell, reader_names()); }

OptionKind kind_of(const std::string& word) {
  // In the order of OptionKind.
  static constexpr std::string_view kKinds[] = {"size",   "count", "number", "numbers", "flag",
                                                "choice", "text",  "texts",  "pair",    "words"};
  const auto* found = std::ranges::find(kKinds, word);
  SIM_CHECK(found != std::end(kKinds));
  return static_cast<OptionKind>(found - std::begin(kKinds));
}

void take_mark(const std::string& mark, OptionInfo& option) {
  constexpr std::string_view kBeside = "beside-", kRules = "-rules";
  SIM_CHECK(mark == "virtual" || mark == "replay-only" || mark.starts_with(kBeside) ||
            mark.ends_with(kRules));
  if (mark == "virtual") option.needs_virtual_ranks = true;
  if (mark == "replay-only") option.backend_commands = Reader::replay;
  if (mark.starts_with(kBeside)) option.backend_beside = mark.substr(kBeside.size());
  if (mark.ends_with(kRules)) option.rules = mark.substr(0, mark.size() - kRules.size());
}

OptionInfo option_of(const TextRow& row) {
  OptionInfo option{.name = row.at(0),
                    .kind = kind_of(row.at(1)),
                    .section = row.at(2),
                    .readers = readers_of(row.at(3)),
                    .fallback = text_of_cell(row.at(4)),
                    .help = row.at(8),
                    .value = text_of_cell(row.at(6)),
                    .choices = words_of_cell(row.at(5))};
  SIM_CHECK(std::ranges::count(option_sections(), option.section, &OptionSection::name) == 1);
  for (const std::string& mark : words_of_cell(row.at(7))) take_mark(mark, option);
  return option;
}

/// Adds what the option before a row means to some of its readers.
void add_meaning(const TextRow& row, std::vector<OptionInfo>& options) {
  SIM_CHECK(!options.empty() && options.back().name == row.at(0));
  options.back().meanings.push_back({.readers = readers_of(row.at(3)),
                                     .fallback = text_of_cell(row.at(4)),
                                     .help = row.at(8),
                                     .choices = words_of_cell(row.at(5))});
}

}  // namespace

const std::vector<OptionSection>& option_sections() {
  static const std::vector<OptionSection> sections = made_of_rows(kSections, [](const TextRow& row) {
    return OptionSection{row.at(0), row.at(1), row.at(2)};
  });
  return sections;
}

const std::vector<OptionInfo>& option_vocabulary() {
  static const std::vector<OptionInfo> options = [] {
    std::vector<OptionInfo> all;
    for (const TextRow& row : rows_of_table(kOptions))
      row.at(1) == "for" ? add_meaning(row, all) : all.push_back(option_of(row));
    return all;
  }();
  return options;
}

OptionInfo OptionInfo::as_read_by(Reader command) const {
  OptionInfo option = *this;
  for (const OptionMeaning& meaning : meanings) {
    if (!overlap(meaning.readers, command)) continue;
    option.fallback = meaning.fallback;
    option.help = meaning.help;
    option.choices = meaning.choices;
  }
  return option;
}

std::string value_text(const OptionInfo& option) {
  // In the order of OptionKind.
  static constexpr const char* kTexts[] = {"N", "N",    "N",    "N,...", "",
                                           "",  "TEXT", "TEXT", "TEXT",  "NAME,..."};
  if (!option.value.empty()) return option.value;
  if (option.kind == OptionKind::choice) return fmt::format("{}", fmt::join(option.choices, "|"));
  return kTexts[static_cast<std::size_t>(option.kind)];
}

std::vector<std::string> all_choices(const OptionInfo& option) {
  std::vector<std::string> all = option.choices;
  for (const OptionMeaning& meaning : option.meanings)
    all.insert(all.end(), meaning.choices.begin(), meaning.choices.end());
  return all;
}

std::vector<OptionInfo> variants_of(const OptionInfo& option) {
  std::vector<OptionInfo> variants = {option};
  for (const OptionMeaning& meaning : option.meanings) {
    variants.push_back(option.as_read_by(meaning.readers));
    variants.back().readers = option.readers & meaning.readers;
    variants.front().readers = variants.front().readers & ~meaning.readers;
  }
  return variants;
}

std::string text_of_readers(const OptionInfo& option) {
  std::vector<std::string_view> names;
  for (const ReaderName& name : reader_names()) {
    if (!name.text.empty() && overlap(option.readers, name.reader)) names.push_back(name.text);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string help_call(std::string_view words) {
  const std::string_view first = words.substr(0, words.find_first_of(" '"));
  const bool is_command = !first.empty() && !first.starts_with('-') &&
                          std::ranges::count(reader_names(), first, &ReaderName::text) > 0;
  return is_command ? fmt::format("shardproof {} --help", first) : "shardproof --help";
}

const OptionInfo* find_option(const std::string& name) {
  static const auto index = [] {
    std::map<std::string_view, const OptionInfo*> by_name;
    for (const OptionInfo& option : option_vocabulary()) by_name.emplace(option.name, &option);
    return by_name;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

const OptionInfo& option_named(const std::string& name) {
  const OptionInfo* option = find_option(name);
  SIM_CHECK(option != nullptr);
  return *option;
}

void refuse_without_effect(const std::string& option, const std::string& command) {
  refuse_by("option_without_effect", "--" + option, command, help_call(command));
}

}  // namespace verify
