#include "verify/run_arguments/argument_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/base/check.h"
#include "verify/output/table_rows.h"
#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

constexpr std::string_view kArguments =
#include "arguments.tsv.inc"
    ;
constexpr std::string_view kPurposes =
#include "purposes.tsv.inc"
    ;

/// Returns the value of a word in a list of words that are known.
template <typename Value>
Value known(const std::map<std::string_view, Value>& words, const std::string& word) {
  const auto found = words.find(word);
  SIM_CHECK(found != words.end());
  return found->second;
}

/// Returns a row with what the arguments of one purpose share.
ArgumentRow row_of_purpose(const TextRow& cells) {
  using enum ArgumentUse;
  static const std::map<std::string_view, std::pair<ArgumentUse, Unproved>> uses = {
      {"used", {used, Unproved::nothing}},
      {"no-effect", {without_effect, Unproved::nothing}},
      {"named", {not_modelled, Unproved::nothing}},
      {"memory", {not_modelled, Unproved::memory}},
      {"training", {not_modelled, Unproved::training}},
      {"layers", {not_modelled, Unproved::layers}},
      {"groups", {not_modelled, Unproved::groups}}};
  const auto [use, unproved] = known(uses, cells.at(1));
  return {.spelling = "",
          .use = use,
          .unproved = unproved,
          .sentence = cells.at(3),
          .only_with = words_of_cell(cells.at(2))};
}

void take_words(const std::string& word, ArgumentRow& row) {
  using enum ArgumentShape;
  static const std::map<std::string_view, std::pair<ArgumentShape, NumberKind>> shapes = {
      {"?", {unknown, NumberKind::none}},        {"flag", {flag, NumberKind::none}},
      {"word", {value, NumberKind::none}},       {"whole", {value, NumberKind::whole}},
      {"decimal", {value, NumberKind::decimal}}, {"list", {list, NumberKind::none}},
      {"names", {list, NumberKind::none}},       {"any", {maybes, NumberKind::none}}};
  std::tie(row.shape, row.number) = known(shapes, word);
  row.has_plain_words = word == "names";
}

const std::vector<ArgumentRow>& argument_rows() {
  static const std::vector<ArgumentRow> rows = read_argument_rows(kArguments, kPurposes);
  return rows;
}

/// Returns the row of an argument; one that says nothing where the table has no such name.
const ArgumentRow& row_or_empty(std::string_view name) {
  static const ArgumentRow empty;
  const ArgumentRow* row = find_argument(name);
  return row == nullptr ? empty : *row;
}

}  // namespace

std::vector<ArgumentRow> read_argument_rows(std::string_view arguments, std::string_view purposes) {
  std::map<std::string, ArgumentRow> of_purpose;
  for (const TextRow& cells : rows_of_table(purposes))
    SIM_CHECK(of_purpose.emplace(cells.at(0), row_of_purpose(cells)).second);
  std::vector<ArgumentRow> rows;
  std::set<std::string> names;
  for (const TextRow& cells : rows_of_table(arguments)) {
    const auto purpose = of_purpose.find(cells.at(1));
    SIM_CHECK(purpose != of_purpose.end());
    ArgumentRow row = purpose->second;
    row.spelling = cells.at(0);
    take_words(cells.at(2), row);
    row.in_log_if_absent = cells.at(3) == "-" ? "" : cells.at(3);
    row.names_in_logs = words_of_cell(cells.at(4));
    SIM_CHECK(names.insert(run_argument_name(row.spelling)).second);
    rows.push_back(std::move(row));
  }
  for (const auto& [purpose, row] : of_purpose)
    SIM_CHECK(std::ranges::all_of(
        row.only_with, [&](const std::string& one) { return names.contains(one.substr(0, one.find('='))); }));
  return rows;
}

const ArgumentRow* find_argument(std::string_view name) {
  static const auto index = [] {
    std::map<std::string, const ArgumentRow*, std::less<>> by_name;
    for (const ArgumentRow& row : argument_rows()) by_name.emplace(run_argument_name(row.spelling), &row);
    return by_name;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

const LogName* find_log_name(std::string_view name) {
  static const auto index = [] {
    std::map<std::string, LogName, std::less<>> by_name;
    for (const ArgumentRow& row : argument_rows()) {
      for (const std::string& written : row.names_in_logs) {
        const bool is_negated = written.starts_with('!');
        by_name.emplace(written.substr(is_negated ? 1 : 0), LogName{row.spelling, is_negated});
      }
    }
    return by_name;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : &found->second;
}

std::vector<std::string> argument_names() {
  std::vector<std::string> names;
  for (const ArgumentRow& row : argument_rows()) names.push_back(run_argument_name(row.spelling));
  return names;
}

bool is_used_argument(std::string_view name) {
  const ArgumentRow* row = find_argument(name);
  return row != nullptr && row->use == ArgumentUse::used;
}
ArgumentShape shape_of_argument(std::string_view name) { return row_or_empty(name).shape; }
NumberKind number_kind_of_argument(std::string_view name) { return row_or_empty(name).number; }
bool has_plain_words(std::string_view name) { return row_or_empty(name).has_plain_words; }

bool is_known_with_underscores(std::string_view written) {
  return row_or_empty(run_argument_name(written)).spelling == written &&
         written.find('_') != std::string_view::npos;
}

}  // namespace verify
