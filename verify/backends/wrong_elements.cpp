#include "verify/backends/wrong_elements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "verify/output/json.h"

namespace verify {

namespace {

using Pair = std::pair<std::size_t, std::int64_t>;  // row, number of wrong elements

std::string text_of(const std::vector<Pair>& pairs) {
  std::vector<std::int64_t> numbers;
  for (const auto& [row, wrong] : pairs) {
    numbers.push_back(static_cast<std::int64_t>(row));
    numbers.push_back(wrong);
  }
  return fmt::format("[{}]", fmt::join(numbers, ","));
}

}  // namespace

std::string wrong_elements_text(const BandwidthRows& rows, std::size_t most_bytes) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].wrong > 0) pairs.emplace_back(i, rows[i].wrong);
  }
  while (text_of(pairs).size() > most_bytes) {
    CHECK(pairs.size() > 1);
    const std::int64_t wrong = pairs.back().second;
    pairs.pop_back();
    pairs.back().second += wrong;
  }
  return text_of(pairs);
}

bool add_wrong_elements(BandwidthRows& rows, const std::string& text) {
  const Json document = parsed_json(text).value_or(Json());
  if (!document.is_array() || document.size() % 2 != 0) return false;
  const auto is_count = [](const Json& number) {
    return number.is_integer() && number.integer() >= 0 && number.integer() <= std::int64_t{1} << 40U;
  };
  for (std::size_t i = 0; i < document.size(); i += 2) {
    if (!is_count(document[i]) || !is_count(document[i + 1])) return false;
    if (document[i].integer() >= std::ssize(rows)) return false;
  }
  for (std::size_t i = 0; i < document.size(); i += 2)
    rows[static_cast<std::size_t>(document[i].integer())].wrong += document[i + 1].integer();
  return true;
}

}  // namespace verify
