#include "sim/parallel/parallel_dropout.h"

#include <fmt/format.h>

#include "sim/tensor/dropout.h"

namespace sim {

namespace {

KeyedRandom stream_of(Rank& rank, const ParallelDropoutConfig& config) {
  const KeyedRandom shared = rank.random.named("dropout").named(config.name);
  if (config.region == Region::replicated) return shared;
  return shared.named(fmt::format("tp rank {}", rank.groups.get("tp").rank()));
}

}  // namespace

ParallelDropout::ParallelDropout(Rank& rank, const ParallelDropoutConfig& config)
    : probability_(config.probability), stream_(stream_of(rank, config)) {}

Tensor ParallelDropout::forward(const Tensor& x, std::uint64_t pass) const {
  if (probability_.numerator == 0) return x;
  return dropout(x, stream_.named(fmt::format("pass {}", pass)), probability_);
}

}  // namespace sim
