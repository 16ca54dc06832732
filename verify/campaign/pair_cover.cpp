#include "verify/campaign/pair_cover.h"

namespace verify {

PairCover::PairCover(const std::vector<int>& values) {
  for (const int count : values) {
    first_.push_back(ids_);
    ids_ += static_cast<std::size_t>(count);
  }
  const std::size_t factors = values.size();
  all_.open.assign(ids_ * ids_, 0);
  all_.open_of_factor.assign(ids_ * factors, 0);
  for (std::size_t f = 0; f < factors; ++f) {
    for (std::size_t g = 0; g < factors; ++g) {
      if (f == g) continue;
      for (int value = 0; value < values[f]; ++value) {
        all_.open_of_factor[id(f, value) * factors + g] = values[g];
        for (int other = 0; other < values[g]; ++other) all_.open[id(f, value) * ids_ + id(g, other)] = 1;
        if (f < g) all_.left += static_cast<std::size_t>(values[g]);
      }
    }
  }
  now_ = all_;
}

void PairCover::close(Pairs& pairs, std::size_t factor, int value, std::size_t other, int other_value) const {
  const std::size_t a = id(factor, value), b = id(other, other_value);
  if (pairs.open[a * ids_ + b] == 0) return;
  pairs.open[a * ids_ + b] = pairs.open[b * ids_ + a] = 0;
  --pairs.open_of_factor[a * first_.size() + other];
  --pairs.open_of_factor[b * first_.size() + factor];
  --pairs.left;
}

void PairCover::leave_out(std::size_t factor, int value, std::size_t other, int other_value) {
  close(all_, factor, value, other, other_value);
  close(now_, factor, value, other, other_value);
}

PairCover::Gain PairCover::gain(std::size_t factor, int value, const std::vector<int>& row) const {
  Gain gain;
  const std::size_t own = id(factor, value);
  for (std::size_t other = 0; other < row.size(); ++other) {
    if (other == factor) continue;
    if (row[other] == kNone) {
      gain.chances += now_.open_of_factor[own * row.size() + other];
    } else {
      gain.pairs += is_open(own, id(other, row[other])) ? 1 : 0;
    }
  }
  return gain;
}

void PairCover::cover(const std::vector<int>& row) {
  for (std::size_t f = 0; f < row.size(); ++f) {
    for (std::size_t g = f + 1; g < row.size(); ++g) {
      if (row[f] != kNone && row[g] != kNone) close(now_, f, row[f], g, row[g]);
    }
  }
  if (now_.left > 0) return;
  now_ = all_;
  ++covers_;
}

}  // namespace verify
