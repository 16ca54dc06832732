#include "verify/checks/layer_counts.h"

#include <fmt/format.h>
#include <vector>

#include "verify/output/phrases.h"

namespace verify {

namespace {

/// The number of layers of a pipeline rank, of which the options may give the first and the last.
std::int64_t layers_of_rank(const sim::LayerRequest& request, std::int64_t rank) {
  const auto& first = request.num_layers_in_first_pipeline_stage;
  const auto& last = request.num_layers_in_last_pipeline_stage;
  const std::int64_t pp = request.pipeline_model_parallel_size;
  if (first && rank == 0) return *first;
  if (last && rank == pp - 1) return *last;
  const std::int64_t others = pp - (first ? 1 : 0) - (last ? 1 : 0);
  return (request.num_layers - first.value_or(0) - last.value_or(0)) / others;
}

/// The number of layers of each stage, in the order of the model.
std::vector<std::int64_t> stated_counts(const sim::LayerRequest& request) {
  const std::int64_t pp = request.pipeline_model_parallel_size;
  const std::int64_t chunks = request.virtual_pipeline_model_parallel_size.value_or(1);
  const std::int64_t embedding = request.account_for_embedding_in_pipeline_split ? 1 : 0;
  const std::int64_t loss = request.account_for_loss_in_pipeline_split ? 1 : 0;
  std::vector<std::int64_t> counts;
  for (std::int64_t stage = 0; stage < pp * chunks; ++stage) {
    const std::int64_t of_rank = embedding + loss > 0 ? (request.num_layers + embedding + loss) / pp
                                                      : layers_of_rank(request, stage % pp);
    std::int64_t count = of_rank / chunks;
    if (stage == 0) count -= embedding;
    if (stage == pp * chunks - 1) count -= loss;
    counts.push_back(count);
  }
  return counts;
}

}  // namespace

std::string wrong_layer_count(const sim::LayerRequest& request, const sim::LayerPlacement& placement) {
  if (request.pipeline_model_parallel_layout) return "";
  const std::vector<std::int64_t> counts = stated_counts(request);
  const auto ranks = static_cast<std::int64_t>(placement.stages.size());
  std::int64_t first_layer = 0;
  for (std::int64_t stage = 0; stage < std::ssize(counts); ++stage) {
    const std::int64_t count = counts[static_cast<std::size_t>(stage)];
    const sim::StageLayers& made =
        placement.stages[static_cast<std::size_t>(stage % ranks)][static_cast<std::size_t>(stage / ranks)];
    if (made.count != count || (count > 0 && made.offset != first_layer)) {
      return fmt::format(
          "chunk {} of pipeline rank {} holds {} from layer {} on, but the options give it {} from layer {} "
          "on",
          stage / ranks, stage % ranks, counted(made.count, "layer"), made.offset, count, first_layer);
    }
    first_layer += count;
  }
  return "";
}

}  // namespace verify
