#include "sim/model/batch.h"

#include <algorithm>
#include <cstring>

#include "sim/base/check.h"

namespace sim {

namespace {

/// Returns the tokens or the labels (`side`) that this rank has of a microbatch's samples, row by row, on all
/// ranks of the group.
Tensor broadcast_rows(Rank& rank, const GptConfig& config, const SampleSource& source,
                      std::int64_t first_sample, std::vector<std::int32_t> Sample::*side, Site site) {
  Communicator& tp = rank.groups.get("tp");
  const std::vector<std::int64_t> own = config.sequence_cut().rows_of(config.context_parallel_rank(rank));
  const auto batch = static_cast<std::size_t>(config.micro_batch_size);
  std::vector<std::int32_t> rows(own.size() * batch);
  for (std::size_t b = 0; b < batch && tp.rank() == 0; ++b) {
    const Sample sample = source(first_sample + static_cast<std::int64_t>(b));
    const std::vector<std::int32_t>& ids = sample.*side;
    SIM_CHECK(static_cast<std::int64_t>(ids.size()) == config.seq_length);
    for (std::size_t s = 0; s < own.size(); ++s) rows[s * batch + b] = ids[static_cast<std::size_t>(own[s])];
  }
  Tensor ids = from_host(rank.device, DType::i32, {config.tokens()}, std::as_bytes(std::span(rows)));
  if (tp.size() > 1) tp.broadcast(ids, 0, site);
  return ids;
}

}  // namespace

Microbatch get_batch(Rank& rank, const GptConfig& config, const SampleSource& source,
                     std::int64_t first_sample, const GptChunk& chunk) {
  Microbatch microbatch;
  if (chunk.pre_process)
    microbatch.tokens =
        broadcast_rows(rank, config, source, first_sample, &Sample::tokens, "get_batch.tokens");
  if (chunk.post_process)
    microbatch.labels =
        broadcast_rows(rank, config, source, first_sample, &Sample::labels, "get_batch.labels");
  return microbatch;
}

std::int64_t tokens_with_loss(const Tensor& labels) {
  const std::vector<std::byte> bytes = host_bytes(labels);
  std::vector<std::int32_t> ids(bytes.size() / sizeof(std::int32_t));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return std::count_if(ids.begin(), ids.end(), [](std::int32_t id) { return id != kIgnoredLabel; });
}

}  // namespace sim
