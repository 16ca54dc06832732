#include "verify/vocabulary/batch_schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <system_error>

namespace verify {

namespace {

/// Reads "200B" as 200 * 10^9.
std::optional<std::int64_t> amount(std::string_view text) {
  static constexpr std::string_view kSuffixes = "KMBT";
  constexpr double kLargest = 9e18;
  double unit = 1;
  if (const std::size_t suffix = text.empty() ? std::string_view::npos : kSuffixes.find(text.back());
      suffix != std::string_view::npos) {
    unit = std::pow(1000.0, static_cast<double>(suffix + 1));
    text.remove_suffix(1);
  }
  const auto number = decimal_number(text);
  if (!number || !(std::abs(*number * unit) < kLargest)) return std::nullopt;
  return static_cast<std::int64_t>(*number * unit);
}

}  // namespace

std::optional<double> decimal_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

BatchSchedule parse_batch_schedule(std::string text, std::optional<std::int64_t> seq_length) {
  BatchSchedule schedule;
  std::replace(text.begin(), text.end(), ',', ' ');
  const std::int64_t tokens_of_sample = std::max<std::int64_t>(1, seq_length.value_or(1));
  std::istringstream entries(text);
  for (std::string entry; entries >> entry;) {
    const std::size_t colon = entry.find(':');
    const auto threshold = amount(std::string_view(entry).substr(0, colon));
    const auto size = colon == std::string::npos ? std::nullopt : amount(entry.substr(colon + 1));
    if (!threshold || !size) {
      if (schedule.unreadable.empty()) schedule.unreadable = entry;
      continue;
    }
    schedule.steps.push_back({*threshold / tokens_of_sample, *size});
  }
  std::ranges::stable_sort(schedule.steps, {}, &BatchStep::samples);
  return schedule;
}

}  // namespace verify
