#include "verify/vocabulary/fork_choices.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/output/table_rows.h"
#include "verify/vocabulary/nearest_name.h"

namespace verify {

namespace {

constexpr std::string_view kForkChoices =
#include "fork_choices.tsv.inc"
    ;

}  // namespace

void require_choice(const std::string& option, const std::string& word,
                    const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, word) != choices.end()) return;
  const std::string nearest = nearest_name(word, choices);
  std::string known, hint = fmt::format("--{} {}", option, nearest.empty() ? choices.front() : nearest);
  for (const TextRow& row : rows_of_table(kForkChoices)) {
    if (row.at(0) != option || row.at(1) != word) continue;
    known = fmt::format("; this one is known to {} alone", row.at(2));
    hint = row.at(3);
  }
  sim::refuse({.code = "bad_choice",
               .option = "--" + option,
               .numbers = fmt::format("'{}'", sim::printable_text(word).substr(0, 100)),
               .rule = fmt::format("the value is one of {}{}", fmt::join(choices, ", "), known),
               .hint = hint});
}

}  // namespace verify
