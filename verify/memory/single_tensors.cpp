#include "verify/memory/single_tensors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/optimizer/range_map.h"
#include "verify/memory/activation_memory.h"
#include "verify/memory/fixed_memory.h"

namespace verify {

namespace {

constexpr std::int64_t kElementInFp32 = 4;               // bytes
constexpr std::int64_t kLeast = std::int64_t{10} << 20;  // bytes that are allocated by their own size

class Lister {
 public:
  Lister(const ActivationShape& shape, const MemoryReport& report)
      : shape_(shape), report_(report), e_(shape.element_bytes) {}

  void chunk(const Stage& chunk) {
    const ShardSizes sizes{
        .tp = shape_.tp, .ep = shape_.ep, .etp = shape_.etp, .cuts_latents = shape_.options.local_layers};
    const BufferContents contents =
        contents_of_buffers(held_parameters(shape_.model, chunk, sizes), report_.expert_owners > 0);
    buffer(contents.dense, report_.owners, "parameters");
    buffer(contents.experts, report_.expert_owners, "parameters of experts");
  }

  void layers(const Stage& stage) {
    bool has_dense = false, has_experts = false;
    for (const sim::StageLayers& chunk : stage.layers)
      for (int layer = chunk.offset; layer < chunk.offset + chunk.count; ++layer)
        (shape_.model.experts.are_in(layer) ? has_experts : has_dense) = true;
    if (has_dense) layer(false);
    if (has_experts) layer(true);
    if (shape_.sequence_parallel)
      add("hidden states that are gathered over tp", of_tokens(shape_.model.hidden_size), e_, Phase::step);
    if (has_experts) on_the_way_to_experts();
    if (shape_.cp > 1) {
      const std::int64_t elements = key_and_value_bytes(shape_) / e_;
      add("keys and values that travel over cp", {elements}, e_, Phase::step);
    }
  }

  void ends(const Stage& stage) {
    const std::int64_t columns = shape_.padded_vocab_size / shape_.tp;
    if (stage.is_last) {
      add("the logits in fp32", of_tokens(columns), kElementInFp32, Phase::step);
      if (e_ != kElementInFp32) add("the logits", of_tokens(columns), e_, Phase::step);
    }
    if (stage.is_first)
      add("the output of the embedding", of_tokens(shape_.model.hidden_size), e_, Phase::step);
    if (stage.is_first || stage.is_last) {
      add("the gradient of an embedding's or output layer's weight", {columns, shape_.model.hidden_size}, e_,
          Phase::step);
      masks();
    }
  }

  std::vector<SingleTensor> listed() {
    std::ranges::stable_sort(listed_, std::ranges::greater(), &SingleTensor::bytes);
    return std::move(listed_);
  }

 private:
  void add(std::string name, std::vector<std::int64_t> shape, std::int64_t element, Phase phase) {
    SingleTensor tensor{.name = std::move(name), .shape = std::move(shape), .bytes = element, .phase = phase};
    for (const std::int64_t size : tensor.shape) tensor.bytes *= size;
    if (tensor.bytes >= kLeast && std::ranges::find(listed_, tensor) == listed_.end())
      listed_.push_back(std::move(tensor));
  }
  std::vector<std::int64_t> of_tokens(std::int64_t width) const {
    return shape_.shape_of(shape_.tokens, width);
  }

  void buffer(const std::vector<HeldParameter>& held, int owners, const std::string& of) {
    if (held.empty()) return;
    const StateBytes& state = report_.state;
    const sim::BufferLayout layout = buffer_of(held, owners, state.is_distributed);
    if (state.is_distributed)
      add("the buffer of all " + of, {layout.numel()}, state.parameter, Phase::wrapping);
    add("the buffer of gradients of all " + of, {layout.numel()}, state.gradient, Phase::wrapping);
    for (const HeldParameter& parameter : held)
      if (!parameter.name.empty()) weight(parameter);
    for (const auto& [parameter, elements] : owned(layout, owners))
      states_of(held[static_cast<std::size_t>(parameter)], elements);
  }

  void weight(const HeldParameter& parameter) {
    add("the weight of the " + std::string(parameter.name), {parameter.elements}, e_, Phase::building);
  }

  /// The elements of each parameter that one rank or another owns.
  std::set<std::pair<int, std::int64_t>> owned(const sim::BufferLayout& layout, int owners) const {
    std::set<std::pair<int, std::int64_t>> pieces;
    const int ranks = report_.state.is_distributed ? owners : 1;
    for (int rank = 0; rank < ranks; ++rank)
      for (int bucket = 0; bucket < std::ssize(layout.buckets); ++bucket)
        for (const sim::OwnedPiece& piece : sim::owned_pieces(layout, bucket, rank))
          pieces.emplace(piece.parameter, piece.param.size());
    return pieces;
  }

  void states_of(const HeldParameter& parameter, std::int64_t elements) {
    if (parameter.name.empty()) return;
    const StateBytes& state = report_.state;
    const std::string of = (elements < parameter.elements ? " of a rank's part of the " : " of the ") +
                           std::string(parameter.name);
    const std::int64_t moments = state.optimizer - state.main - state.copied_gradient;
    add("the main parameters" + of, {elements}, state.main, Phase::states);
    if (moments % 2 == 0) add("a moment" + of, {elements}, moments / 2, Phase::states);
    add("the gradient in fp32" + of, {elements}, state.copied_gradient, Phase::states);
  }

  void layer(bool has_experts) {
    for (const SavedTensor& tensor : saved_tensors(shape_, has_experts)) {
      if (tensor.shape.empty()) continue;
      std::int64_t elements = 1;
      for (const std::int64_t size : tensor.shape) elements *= size;
      if (elements == 0) continue;
      add(std::string("the ") + tensor.name + " of a layer, or its gradient", tensor.shape,
          tensor.bytes / elements, Phase::step);
    }
  }

  void on_the_way_to_experts() {
    const std::int64_t width = shape_.model.hidden_size;
    if (shape_.model.experts.dispatcher == sim::TokenDispatcherType::allgather) {
      add("the tokens of all ranks that share experts",
          shape_.shape_of(shape_.own_tokens() * shape_.ep * shape_.etp, width), e_, Phase::step);
    } else {
      add("rows that go to experts", {rows_of_experts(shape_) / shape_.etp, width}, e_, Phase::step);
    }
    add("rows that experts give back", {rows_of_experts(shape_), width}, e_, Phase::step);
  }

  /// A rank of cp cuts its part from the whole mask.
  void masks() {
    if (attention_mask_bytes(shape_) == 0) return;
    const std::int64_t length = shape_.model.seq_length, sequences = shape_.micro_batch_size;
    add("the mask of attention", {sequences, 1, length, length}, 1, Phase::loading);
    if (shape_.cp > 1)
      add("a rank's part of the mask of attention", {sequences, 1, length / shape_.cp, length}, 1,
          Phase::loading);
  }

  const ActivationShape& shape_;
  const MemoryReport& report_;
  std::int64_t e_;
  std::vector<SingleTensor> listed_;
};

}  // namespace

const char* text_of(Phase phase) {
  constexpr const char* kTexts[] = {"while the model is built", "when data parallelism takes the model over",
                                    "while a batch is loaded", "in a forward or backward step",
                                    "in the step of the optimizer"};
  return kTexts[static_cast<std::size_t>(phase)];
}

bool may_be_in(Phase phase, const StageMemory& stage, std::int64_t in_tensors) {
  const std::int64_t model = stage.parameters + stage.gradients;
  const auto about = [](std::int64_t bytes) { return bytes / 20; };  // figures were off by less
  switch (phase) {
    case Phase::building:
      return in_tensors <= stage.parameters + about(stage.parameters);
    case Phase::wrapping:
      return in_tensors <= model + stage.parameters + about(model);
    case Phase::loading:
    case Phase::step:
    case Phase::states:
      return in_tensors >= model - about(model);
  }
  return true;
}

std::vector<SingleTensor> single_tensors(const ActivationShape& shape, const Stage& stage,
                                         const MemoryReport& report) {
  Lister lister(shape, report);
  lister.ends(stage);
  lister.layers(stage);
  for (std::size_t i = 0; i < stage.layers.size(); ++i) {
    lister.chunk({.layers = {stage.layers[i]},
                  .is_first = stage.is_first && i == 0,
                  .is_last = stage.is_last && i + 1 == stage.layers.size()});
  }
  return lister.listed();
}

std::vector<SingleTensor> unexpected_scores(const ActivationShape& shape) {
  if (shape.options.keeps_scores || shape.cp > 1) return {};
  const std::int64_t heads = shape.model.num_attention_heads / shape.tp, length = shape.model.seq_length;
  std::vector<SingleTensor> scores;
  for (const std::int64_t element : std::set{shape.element_bytes, kElementInFp32})
    scores.push_back({.name = "the attention scores of a layer, which exist only if attention runs unfused "
                              "(flash attention was not taken)",
                      .shape = {shape.micro_batch_size, heads, length, length},
                      .bytes = element * shape.micro_batch_size * heads * length * length});
  return scores;
}

}  // namespace verify
