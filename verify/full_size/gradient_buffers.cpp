#include "verify/full_size/gradient_buffers.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "verify/full_size/balanced_experts.h"
#include "verify/full_size/full_size_training.h"

namespace verify {

namespace {

/// The chunks of a pipeline rank, each as a stage.
std::vector<Stage> chunks_of(const ScenarioRequest& request, int rank) {
  std::vector<Stage> chunks;
  for (const sim::StageLayers& layers : request.placement->stages[static_cast<std::size_t>(rank)])
    chunks.push_back({.layers = {layers}});
  chunks.front().is_first = rank == 0;
  chunks.back().is_last = rank + 1 == request.layout.pp;
  return chunks;
}

/// Returns the parameters of a chunk, without the biases of routers.
std::vector<HeldParameter> parameters_of_chunk(const ScenarioRequest& request, const Stage& chunk) {
  const sim::Layout& layout = request.layout;
  std::vector<HeldParameter> held = held_parameters(
      request.model.config, chunk,
      {.tp = layout.tp, .ep = layout.ep, .etp = has_experts(request) ? layout.etp : layout.tp});
  std::erase_if(held, [](const HeldParameter& parameter) { return parameter.is_router_bias; });
  return held;
}

/// Adds the buffers of a chunk that have parameters.
void add_buffers(const ScenarioRequest& request, const Stage& chunk, const GradientBuffer& empty,
                 std::vector<GradientBuffer>& buffers) {
  const sim::Layout& layout = request.layout;
  GradientBuffer dense = empty, of_experts = empty;
  dense.replicas = layout.dp * layout.cp;
  of_experts.group = "edp";
  of_experts.replicas = layout.edp;
  for (HeldParameter& parameter : parameters_of_chunk(request, chunk)) {
    GradientBuffer& buffer = parameter.is_expert && has_expert_buffers(request) ? of_experts : dense;
    parameter.is_shared &= layout.pp > 1;
    buffer.held.push_back(parameter);
  }
  for (GradientBuffer* buffer : {&dense, &of_experts}) {
    if (buffer->held.empty()) continue;
    const bool is_distributed = request.state.is_distributed;
    std::vector<reference::GradientParameter> placed;
    for (const HeldParameter& parameter : buffer->held)
      placed.push_back({.elements = parameter.elements, .is_shared = parameter.is_shared});
    buffer->buckets = reference::gradient_buckets(placed, {.owners = is_distributed ? buffer->replicas : 1,
                                                           .bucket_size = buffer->bucket_size,
                                                           .distributed_optimizer = is_distributed});
    buffers.push_back(std::move(*buffer));
  }
}

/// Adds the elements of a bucket that each of its owners has.
void add_owned(const GradientBuffer& buffer, const reference::GradientBucket& bucket,
               std::vector<std::int64_t>& owned) {
  const std::int64_t part = bucket.elements / std::ssize(owned);
  const bool is_aligned = owned.size() > 1;
  std::int64_t end = 0;
  for (const int index : bucket.parameters) {
    const std::int64_t begin = is_aligned ? (end + 63) / 64 * 64 : end;
    end = begin + buffer.held[static_cast<std::size_t>(index)].elements;
    for (std::int64_t place = begin; place < end;) {
      const std::int64_t owner = place / part;
      const std::int64_t piece = std::min(end, (owner + 1) * part) - place;
      owned[static_cast<std::size_t>(owner)] += piece;
      place += piece;
    }
  }
}

}  // namespace

bool has_expert_buffers(const ScenarioRequest& request) {
  return has_experts(request) && (request.layout.ep > 1 || request.layout.etp != request.layout.tp);
}

std::vector<HeldParameter> parameters_at_full_size(const ScenarioRequest& request, int pipeline_rank) {
  std::vector<HeldParameter> all;
  for (const Stage& chunk : chunks_of(request, pipeline_rank)) {
    const std::vector<HeldParameter> own = parameters_of_chunk(request, chunk);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::vector<GradientBuffer> gradient_buffers(const ScenarioRequest& request, int pipeline_rank) {
  std::vector<GradientBuffer> buffers;
  GradientBuffer empty;
  empty.bucket_size = bucket_size(request, pipeline_rank);
  for (const Stage& chunk : chunks_of(request, pipeline_rank)) {
    add_buffers(request, chunk, empty, buffers);
    empty.bucket_size.reset();  // later chunks have one bucket
    ++empty.chunk;
  }
  return buffers;
}

StaticBytes static_bytes(const ScenarioRequest& request, int pipeline_rank) {
  const std::int64_t parameter = request.state.parameter, sum = 4;
  const std::int64_t of_an_owner = parameter == sum ? 2 * sum : 3 * sum;
  StaticBytes bytes;
  std::map<int, std::int64_t> owned_by_rank;
  for (const GradientBuffer& buffer : gradient_buffers(request, pipeline_rank)) {
    std::vector<std::int64_t> owned(
        static_cast<std::size_t>(request.state.is_distributed ? buffer.replicas : 1));
    for (const reference::GradientBucket& bucket : buffer.buckets) {
      bytes.parameters += bucket.elements * parameter;
      bytes.gradients += bucket.elements * sum;
      add_owned(buffer, bucket, owned);
    }
    request.layout.find(buffer.group)->for_each_group([&](int, std::span<const int> members) {
      for (std::size_t place = 0; place < members.size(); ++place) {
        const int stage = request.layout.dense.coordinates_of(members[place])[sim::Axis::pp];
        if (stage == pipeline_rank) owned_by_rank[members[place]] += owned[owned.size() == 1 ? 0 : place];
      }
    });
  }
  for (const auto& [rank, owned] : owned_by_rank)
    bytes.optimizer = std::max(bytes.optimizer, owned * of_an_owner);
  return bytes;
}

}  // namespace verify
