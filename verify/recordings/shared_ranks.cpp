#include "verify/recordings/shared_ranks.h"

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "verify/recordings/recording.h"

namespace verify {

namespace {

using Ranks = SharedRanks::Ranks;

bool is_rank(std::int64_t number) { return number >= 0 && number < kMostRecordedRanks; }

Ranks ranks_of_text(std::string_view text) {
  std::vector<int> ranks;
  for (std::size_t at = 0; at < text.size();) {
    if (std::string_view("[], ").find(text[at]) != std::string_view::npos) {
      ++at;
      continue;
    }
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error != std::errc() || !is_rank(number)) return nullptr;
    ranks.push_back(static_cast<int>(number));
    at = static_cast<std::size_t>(end - text.data());
  }
  return ranks.empty() ? nullptr : std::make_shared<const std::vector<int>>(std::move(ranks));
}

}  // namespace

SharedRanks::Ranks SharedRanks::find(const Value& value, const ValueTree& tree) {
  if (value.is(ValueKind::text)) {
    const std::string_view text = value.as_text();
    const std::scoped_lock lock(mutex_);
    if (const auto found = lists_.find(text); found != lists_.end()) return found->second;
    return lists_[std::string(text)] = ranks_of_text(text);
  }
  std::vector<int> ranks;
  for (const Value& rank : tree.elements(value)) {
    if (!rank.is(ValueKind::integer) || !is_rank(rank.integer)) return nullptr;
    ranks.push_back(static_cast<int>(rank.integer));
  }
  return ranks.empty() ? nullptr : std::make_shared<const std::vector<int>>(std::move(ranks));
}

}  // namespace verify
