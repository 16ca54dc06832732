#include "sim/parallel/vocab_parallel_embedding.h"

#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "sim/base/error.h"
#include "sim/parallel/mappings.h"
#include "sim/tensor/checks.h"
#include "sim/tensor/rows.h"

namespace sim {

namespace {

/// Sums the ranks' terms: with sequence parallelism each rank keeps its rows of the sum.
const Mapping& output_mapping(const VocabParallelEmbeddingConfig& config) {
  return config.sequence_parallel ? kReduceScatterToSequenceParallelRegion
                                  : kReduceFromTensorModelParallelRegion;
}

}  // namespace

void require_token_ids(const Tensor& ids, std::int64_t vocabulary, std::int64_t ignored_id,
                       const std::string& user) {
  require_own(ids, user.c_str());
  require_i32(ids, user.c_str());
  const std::vector<std::byte> bytes = host_bytes(ids);
  for (std::size_t i = 0; i * sizeof(std::int32_t) < bytes.size(); ++i) {
    std::int32_t id = 0;
    std::memcpy(&id, bytes.data() + i * sizeof id, sizeof id);
    if ((id >= 0 && id < vocabulary) || id == ignored_id) continue;
    refuse({.code = "token_id",
            .option = fmt::format("{}, token {}", user, i),
            .numbers = fmt::format("id {} of a vocabulary of {}", id, vocabulary),
            .rule = "token ids and targets are from 0 to the vocabulary's size - 1",
            .hint = "the vocabulary of the tokenizer; for targets also the id that is ignored"});
  }
}

VocabParallelEmbedding::VocabParallelEmbedding(Rank& rank, VocabParallelEmbeddingConfig config)
    : config_(std::move(config)), tp_(rank.groups.get("tp")) {
  weight_ =
      make_parameter(rank, config_.name + ".weight", config_.dtype, {config_.vocabulary, config_.hidden_size},
                     {.dim = 0, .place = tp_.rank(), .size = tp_.size()}, config_.initial);
}

VocabParallelEmbedding::Forward VocabParallelEmbedding::forward(const Tensor& ids) {
  require_token_ids(ids, config_.vocabulary, -1, config_.name);
  const Tensor own = lookup(weight_.value, ids, first_id());
  Tensor output = output_mapping(config_).forward(own, tp_, "vocab_parallel_embedding.forward");
  return {output, {ids}};
}

void VocabParallelEmbedding::backward(const Saved& saved, const Tensor& grad_output) {
  const Tensor grad = output_mapping(config_).backward(grad_output, tp_, "vocab_parallel_embedding.backward");
  add_to_rows(grad, saved.ids, first_id(), weight_.main_grad);
}

}  // namespace sim
