#include "verify/output/refusal_table.h"

#include <algorithm>

#include "sim/base/check.h"
#include "verify/output/table_rows.h"

namespace verify {

namespace {

constexpr std::string_view kRefusals =
#include "refusals.tsv.inc"
    ;

}  // namespace

sim::Refusal refusal_of_row(std::string_view name, const std::string& option, fmt::format_args facts) {
  static const std::vector<TextRow> rows = rows_of_table(kRefusals);
  const std::size_t slash = std::min(name.find('/'), name.size());
  const std::string_view code = name.substr(0, slash),
                         of_code = name.substr(std::min(slash + 1, name.size()));
  const auto row = std::ranges::find_if(rows, [&](const TextRow& one) {
    return one[0] == code && one[1] == (of_code.empty() ? "-" : of_code);
  });
  SIM_CHECK(row != rows.end());
  return {.code = (*row)[0],
          .option = option,
          .numbers = fmt::vformat((*row)[2], facts),
          .rule = fmt::vformat((*row)[3], facts),
          .hint = fmt::vformat((*row)[4], facts)};
}

}  // namespace verify
