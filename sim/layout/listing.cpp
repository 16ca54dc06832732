#include "sim/layout/listing.h"

#include <algorithm>
#include <cstddef>

#include "sim/base/check.h"
#include "sim/layout/parallel_sizes.h"

namespace sim {

namespace {

std::vector<Digit> normal_form(const std::vector<Digit>& digits) {
  std::vector<Digit> result;
  for (const Digit& digit : digits) {
    if (digit.size == 1) continue;
    if (!result.empty() && digit.stride == result.back().size * result.back().stride) {
      result.back().size *= digit.size;
    } else {
      result.push_back(digit);
    }
  }
  if (result.empty()) result.push_back({1, 1});
  return result;
}

}  // namespace

Listing::Listing(const std::vector<Digit>& digits, int first_rank) : first_rank_(first_rank), size_(1) {
  std::int64_t size = 1;
  for (const Digit& digit : digits) {
    SIM_CHECK(digit.size >= 1 && digit.stride >= 1);
    size *= digit.size;
    SIM_CHECK(size <= kMaxSize);
  }
  size_ = static_cast<int>(size);
  digits_ = normal_form(digits);
}

int Listing::rank_at(int place) const {
  int rank = first_rank_;
  for (const Digit& digit : digits_) {
    rank += place % digit.size * digit.stride;
    place /= digit.size;
  }
  return rank;
}

int Listing::place_of(int rank) const {
  int place = 0;
  int weight = 1;
  for (const Digit& digit : digits_) {
    place += (rank - first_rank_) / digit.stride % digit.size * weight;
    weight *= digit.size;
  }
  return place;
}

Listing::Cursor::Cursor(const Listing& listing)
    : digits_(listing.digits_), values_(listing.digits_.size(), 0), rank_(listing.first_rank_) {}

void Listing::Cursor::fill(std::span<int> out) {
  const Digit fastest = digits_[0];
  std::size_t written = 0;
  while (written < out.size()) {
    const auto run =
        std::min<std::size_t>(static_cast<std::size_t>(fastest.size - values_[0]), out.size() - written);
    for (std::size_t i = 0; i < run; ++i) {
      out[written + i] = rank_ + static_cast<int>(i) * fastest.stride;
    }
    written += run;
    values_[0] += static_cast<int>(run);
    rank_ += static_cast<int>(run) * fastest.stride;
    if (values_[0] == fastest.size) carry();
  }
}

void Listing::Cursor::carry() {
  for (std::size_t i = 0; values_[i] == digits_[i].size; ++i) {
    rank_ -= digits_[i].size * digits_[i].stride;
    values_[i] = 0;
    if (i + 1 == digits_.size()) return;  // at the end of the listing the cursor is back at its start
    rank_ += digits_[i + 1].stride;
    ++values_[i + 1];
  }
}

}  // namespace sim
