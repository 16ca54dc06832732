// Proves that the rules that references state for themselves agree with those of the layers that they judge,
// over drawn settings: learning rate, loss scale, buckets, pipeline order, samples of a text, bytes of a
// ring, layer counts.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/comm/ring_traffic.h"
#include "sim/layout/layer_placement.h"
#include "sim/model/text_corpus.h"
#include "sim/optimizer/buffer_layout.h"
#include "sim/optimizer/learning_rate.h"
#include "sim/optimizer/loss_scale.h"
#include "sim/pipeline/schedules.h"
#include "verify/checks/layout_checks.h"
#include "verify/properties/sent_bytes.h"
#include "verify/reference/gradient_buckets.h"
#include "verify/reference/learning_rate.h"
#include "verify/reference/loss_scale.h"
#include "verify/reference/pipeline_order.h"
#include "verify/reference/text_sample.h"

namespace {

namespace reference = verify::reference;

template <typename Whole>
Whole drawn(Whole least, Whole most) {
  return *rc::gen::inRange<Whole>(least, most + 1);
}

RC_GTEST_PROP(TrainingRules, LearningRateIsStatedTwice, ()) {
  const reference::LearningRateSetting setting{.initial = drawn(0, 8) / 8.0,
                                               .peak = drawn(8, 16) / 8.0,
                                               .least = drawn(0, 4) / 8.0,
                                               .warmup = drawn(0, 5),
                                               .decay_end = drawn(0, 1) * drawn(6, 12)};
  const std::int64_t step = drawn(0, 14);
  const sim::Ratio rate =
      sim::learning_rate({.initial = setting.initial,
                          .peak = setting.peak,
                          .least = setting.least,
                          .warmup_steps = setting.warmup,
                          .decay_steps = setting.decay_end,
                          .decay = setting.decay_end > 0 ? sim::Decay::cosine : sim::Decay::constant},
                         step);
  const reference::Fraction stated = reference::learning_rate(setting, step);
  RC_ASSERT(stated.denominator == rate.denominator);
  RC_ASSERT(stated.numerator == rate.numerator);
}

RC_GTEST_PROP(TrainingRules, LossScaleIsStatedTwice, ()) {
  const int least = drawn(0, 3);
  const reference::LossScaleSetting setting{.initial_power = least + drawn(0, 4),
                                            .least_power = least,
                                            .growth_interval = drawn(0, 4),
                                            .hysteresis = drawn(1, 3)};
  sim::LossScale scale({.initial_power = setting.initial_power,
                        .least_power = setting.least_power,
                        .growth_interval = setting.growth_interval,
                        .hysteresis = setting.hysteresis});
  std::vector<bool> is_bad(static_cast<std::size_t>(drawn(0, 15)));  // by step
  for (std::size_t step = 0; step < is_bad.size(); ++step) is_bad[step] = drawn(0, 1) == 1;
  for (const bool found_nonfinite : is_bad) scale.update(found_nonfinite);
  RC_ASSERT(scale.scale().numerator == std::int64_t{1} << reference::loss_scale_power(setting, is_bad));
}

RC_GTEST_PROP(TrainingRules, BucketsAreStatedTwice, ()) {
  const int count = drawn(0, 8);
  std::vector<sim::BufferParameter> parameters;
  std::vector<reference::GradientParameter> stated;
  for (int i = 0; i < count; ++i) {
    parameters.push_back({drawn<std::int64_t>(0, 300), drawn(0, 4) == 0});
    stated.push_back({parameters.back().elements, parameters.back().shared_embedding});
  }
  const int owners = drawn(1, 6);
  const bool is_distributed = drawn(0, 1) == 1;
  const auto bucket_size = drawn(0, 2) == 0 ? std::nullopt : std::optional<std::int64_t>(drawn(1, 500));
  const sim::BufferLayout layout = sim::buffer_layout(
      parameters, {.owners = owners, .bucket_size = bucket_size, .distributed_optimizer = is_distributed});
  const auto buckets = reference::gradient_buckets(
      stated, {.owners = owners, .bucket_size = bucket_size, .distributed_optimizer = is_distributed});
  RC_ASSERT(buckets.size() == layout.buckets.size());
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    RC_ASSERT(buckets[i].elements == layout.buckets[i].range.size());
    RC_ASSERT(buckets[i].parameters == layout.buckets[i].parameters);
  }
}

RC_GTEST_PROP(TrainingRules, PipelineOrderIsStatedTwice, ()) {
  using enum reference::Schedule;
  const int ranks = drawn(1, 6), kind = drawn(0, 3);
  const bool is_interleaved = kind == 3 && ranks > 1;
  const int chunks = is_interleaved ? drawn(1, 4) : 1;
  const int microbatches = is_interleaved ? ranks * drawn(1, 4) : drawn(1, 9);
  const int group = is_interleaved ? drawn(ranks, microbatches) : ranks;
  RC_PRE(!is_interleaved || microbatches % group == 0 || microbatches % group >= ranks);
  constexpr sim::ScheduleFunction kFunctions[] = {sim::no_pipelining, sim::gpipe,
                                                  sim::one_forward_one_backward, sim::interleaved};
  constexpr reference::Schedule kStated[] = {none, gpipe, one_forward_one_backward, interleaved};
  const auto at = static_cast<std::size_t>(is_interleaved ? 3 : std::min(kind, 2));
  const sim::PipelineShape shape{.pipeline_model_parallel_size = ranks,
                                 .num_microbatches = microbatches,
                                 .virtual_pipeline_model_parallel_size =
                                     is_interleaved ? std::optional<std::int64_t>(chunks) : std::nullopt,
                                 .microbatch_group_size_per_virtual_pipeline_stage = group};
  const int rank = drawn(0, ranks - 1);
  const auto steps = steps_of(kFunctions[at](shape, rank));
  const auto stated = reference::pipeline_order({.schedule = kStated[at],
                                                 .ranks = ranks,
                                                 .microbatches = microbatches,
                                                 .chunks = chunks,
                                                 .group = group},
                                                rank);
  RC_ASSERT(steps.size() == stated.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const reference::PipelineStep made{steps[i].pass == sim::Pass::backward, steps[i].microbatch,
                                       steps[i].chunk};
    RC_ASSERT(text_of(made) == text_of(stated[i]));
  }
}

RC_GTEST_PROP(TrainingRules, SamplesOfATextAreStatedTwice, ()) {
  const auto text = *rc::gen::container<std::string>(20, rc::gen::element('a', '\n', '\n', '\r'));
  const bool masks = drawn(0, 1) == 1;
  const std::int64_t sequence = drawn(1, 8);
  const sim::TextCorpus corpus("text", text, sequence, 7, masks);
  const std::int64_t number = drawn(0, 30);
  const sim::Sample sample = corpus.sample(number);
  const reference::TextSample stated =
      reference::text_sample(text, corpus.begin_of(number), sequence, masks, sim::kIgnoredLabel);
  RC_ASSERT(std::vector<std::int64_t>(sample.tokens.begin(), sample.tokens.end()) == stated.tokens);
  RC_ASSERT(std::vector<std::int64_t>(sample.labels.begin(), sample.labels.end()) == stated.labels);
}

/// Returns the record of a call of one member, with the bytes of the ledger.
sim::CallRecord recorded(sim::Operation operation, std::int64_t count, const sim::ProcessGroup& group,
                         int place) {
  const bool has_root = sim::has_root(operation);
  const int root = 1 % group.size();
  sim::Call call(operation, "test.call");
  call.root = has_root ? root : -1;
  call.peer = operation == sim::Operation::send ? root : -1;
  call.count = count;
  call.dtype = sim::DType::f32;
  const sim::Traffic traffic = sim::traffic_of(call, group, place);
  return {.group = &group,
          .site = call.site,
          .sequence = 0,
          .count = count,
          .bytes_inside = traffic.bytes_inside,
          .bytes_across = traffic.bytes_across,
          .root_or_peer = has_root || operation == sim::Operation::send ? root : -1,
          .operation = operation,
          .dtype = sim::DType::f32,
          .reduce_op = sim::ReduceOp::sum,
          .waited = true};
}

RC_GTEST_PROP(TrainingRules, BytesOfACallAreStatedTwice, ()) {
  const int size = drawn(1, 6);
  sim::ProcessGroup group{.kind = "tp", .members = {}, .gpus_per_node = drawn(1, 4)};
  for (int i = 0; i < size; ++i) group.members.push_back(i);
  const auto operation = static_cast<sim::Operation>(drawn(0, static_cast<int>(sim::Operation::new_group)));
  RC_PRE(operation != sim::Operation::all_to_all_uneven);
  const int place = drawn(0, size - 1);
  RC_PRE(operation != sim::Operation::send || place != 1 % size);  // no rank sends to itself
  sim::CallRecord call = recorded(operation, drawn<std::int64_t>(0, 20), group, place);
  RC_ASSERT(verify::wrong_bytes(call, group.rank_at(place)).empty());
  call.bytes_inside += 4;
  RC_ASSERT(!verify::wrong_bytes(call, group.rank_at(place)).empty());
}

TEST(TrainingRules, BytesOfAnUnevenExchangeAreThoseOfItsRows) {
  const sim::ProcessGroup group{.kind = "tp", .members = {0, 1, 2}, .gpus_per_node = 2};
  sim::CallRecord call = recorded(sim::Operation::all_to_all, 3, group, 0);
  call.operation = sim::Operation::all_to_all_uneven;
  call.count = 9;
  call.bytes_inside = 3 * 4;
  call.bytes_across = 4 * 4;
  EXPECT_EQ(verify::wrong_bytes(call, 0, {2, 3, 4}), "");
  EXPECT_NE(verify::wrong_bytes(call, 0, {2, 4, 3}), "");
  EXPECT_EQ(verify::wrong_bytes(call, 0), "");  // the rows for each place are not known
}

TEST(TrainingRules, BytesOnTheWrongSideOfANodeAreSeen) {
  const sim::ProcessGroup group{.kind = "tp", .members = {0, 1}, .gpus_per_node = 1};
  sim::CallRecord call = recorded(sim::Operation::all_gather, 3, group, 0);
  std::swap(call.bytes_inside, call.bytes_across);
  const std::string wrong = verify::wrong_bytes(call, 0);
  EXPECT_NE(
      wrong.find("the ledger has 12 bytes inside the node and 0 across nodes, but the ring sends 0 and 12"),
      std::string::npos)
      << wrong;
}

TEST(TrainingRules, CountsOfFirstAndLastStageExchangedAreSeen) {
  const sim::LayerRequest request{.num_layers = 11,
                                  .pipeline_model_parallel_size = 4,
                                  .num_layers_in_first_pipeline_stage = 2,
                                  .num_layers_in_last_pipeline_stage = 3};
  const sim::LayerPlacement placement = sim::place_layers(request);
  EXPECT_EQ(verify::wrong_layer_count(request, placement), "");
  sim::LayerRequest exchanged = request;
  std::swap(exchanged.num_layers_in_first_pipeline_stage, exchanged.num_layers_in_last_pipeline_stage);
  EXPECT_EQ(verify::wrong_layer_count(request, sim::place_layers(exchanged)),
            "chunk 0 of pipeline rank 0 holds 3 layers from layer 0 on, but the options give it 2 from "
            "layer 0 on");
}

RC_GTEST_PROP(TrainingRules, LayerCountsAreStatedTwice, ()) {
  const std::int64_t pp = drawn(1, 5), chunks = pp > 1 ? drawn(1, 3) : 1;
  sim::LayerRequest request{.num_layers = pp * chunks * drawn(1, 3), .pipeline_model_parallel_size = pp};
  if (chunks > 1) request.virtual_pipeline_model_parallel_size = chunks;
  const int mode = drawn(0, 2);
  if (mode == 1) {
    request.account_for_embedding_in_pipeline_split = drawn(0, 1) == 1;
    request.account_for_loss_in_pipeline_split = drawn(0, 1) == 1;
    request.num_layers -= (request.account_for_embedding_in_pipeline_split ? 1 : 0) +
                          (request.account_for_loss_in_pipeline_split ? 1 : 0);
  }
  if (mode == 2 && pp > 2) {
    request.num_layers_in_first_pipeline_stage = chunks * drawn(1, 3);
    request.num_layers += *request.num_layers_in_first_pipeline_stage - request.num_layers / pp;
  }
  RC_PRE(request.num_layers > 0);
  RC_ASSERT(verify::wrong_layer_count(request, sim::place_layers(request)) == "");
}

}  // namespace
