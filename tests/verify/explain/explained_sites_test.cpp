// An explanation names no site that has no part in a mistake: in the smallest settings much is zero or unused
// that need not be.

#include "verify/explain/explained_sites.h"

#include <cstddef>
#include <gtest/gtest.h>
#include <span>
#include <string>
#include <vector>

#include "sim/tensor/checks.h"
#include "sim/tensor/ops.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_list.h"
#include "verify/cases/stretches.h"
#include "verify/explain/explanation.h"
#include "verify/properties/bench.h"
#include "verify/properties/properties.h"

namespace {

using verify::Bench;
using verify::Case;
using verify::CaseSetting;
using verify::Dimensions;

/// The smallest setting of a case on so many ranks, but for some numbers.
CaseSetting smallest(const Case& the_case, int ranks, const Dimensions& but_for) {
  CaseSetting setting;
  setting.group_size = ranks;
  setting.ranks = the_case.ranks();
  setting.seed = 1;
  for (const verify::Dimension& dimension : the_case.dimensions())
    setting.dimensions[dimension.name] = dimension.least;
  for (const auto& [name, value] : but_for) setting.dimensions[name] = value;
  return setting;
}

std::string explained(const std::string& name, int ranks, const Dimensions& but_for,
                      const std::vector<const char*>& faults, std::uint64_t seed = 1) {
  const Case& the_case = *verify::find_case(name);
  CaseSetting setting = smallest(the_case, ranks, but_for);
  setting.seed = seed;
  Bench bench;
  std::vector<verify::Fault> planted;
  for (const char* fault : faults) planted.push_back(verify::parsed_fault(fault));
  bench.plant(std::move(planted));
  const auto report = bench.run(the_case, setting);
  return explain_sites(bench, the_case, setting, *report);
}

std::string explained(const std::string& name, int ranks, const Dimensions& but_for, const char* fault,
                      std::uint64_t seed = 1) {
  return explained(name, ranks, but_for, std::vector<const char*>{fault}, seed);
}

bool names(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// No site alone makes all right, and a gather that reaches the same tensors is right.
TEST(ExplainedSites, EachOfSeveralSitesThatAreWrongInTheSameWayIsNamed) {
  const std::string scaled =
      explained("mlp", 2, {{"sequence_parallel", 1}},
                {"row_parallel_linear.forward:scale=1/2", "column_parallel_linear.backward:scale=1/2"});
  EXPECT_EQ(scaled,
            "all is right if the result of each of 'column_parallel_linear.backward', "
            "'row_parallel_linear.forward' is multiplied by 2 on all ranks");
  const std::string turned =
      explained("mlp", 3, {{"sequence_parallel", 1}},
                {"row_parallel_linear.forward:next-block", "column_parallel_linear.backward:next-block"});
  EXPECT_TRUE(names(turned, "if each block of each of")) << turned;
  EXPECT_TRUE(names(turned, "'row_parallel_linear.forward'")) << turned;
  const std::string differ =
      explained("mlp", 2, {{"sequence_parallel", 1}},
                {"row_parallel_linear.forward:scale=1/2", "column_parallel_linear.backward:scale=1/3"});
  EXPECT_FALSE(names(differ, "all is right")) << differ;
}

// In a training of three steps the update of the first one reaches the gradients of the last.
TEST(ExplainedSites, AnUpdateIsNotBlamedForTheGradientsOfTheFirstStep) {
  const std::string text = explained("distributed_optimizer", 1, {{"size0", 1}}, "tensor.p0*:scale=2");
  EXPECT_FALSE(names(text, "device.adam")) << text;
}

// One key has the probability 1, and its gradient is zero whatever the scores are; and the root of a
// broadcast gets no result.
TEST(ExplainedSites, WhatIsZeroOrUnusedInARightRunIsNotNamed) {
  const std::string text = explained("gpt_training", 2, {{"tp", 2}, {"rms_norm", 1}},
                                     "row_parallel_linear.forward:scale=1+2^-20@layer=0");
  EXPECT_FALSE(names(text, "device.softmax_backward")) << text;
  EXPECT_FALSE(names(text, "get_batch")) << text;
}

TEST(ExplainedSites, AGradientThatIsZeroForAllKeysIsNamed) {
  const std::string text =
      explained("gpt_training", 1, {{"sequence", 3}, {"rms_norm", 1}}, "device.softmax_backward:zero");
  EXPECT_TRUE(names(text, "every result of 'device.softmax_backward' is zero")) << text;
}

// A kernel of the backward pass gives zeros, too, and the result of a call is of no use. Neither is a reason.
TEST(ExplainedSites, WhatFollowsFromZerosIsNotNamedBesideThem) {
  const std::string text = explained("mlp", 2, {{"bias", 1}}, "device.add_bias:zero");
  EXPECT_TRUE(names(text, "every result of 'device.add_bias' is zero")) << text;
  EXPECT_FALSE(names(text, "device.activate_backward")) << text;
  EXPECT_FALSE(names(text, "row_parallel_linear.forward")) << text;
}

// Few ids of few values are the same again by chance, and so is what a norm leaves of one element.
TEST(ExplainedSites, ABatchThatIsReadAgainIsNamed) {
  const std::string text =
      explained("gpt_training", 2, {{"tp", 2}, {"rms_norm", 1}, {"microbatches", 2}, {"sequence", 3}},
                "get_batch.labels:stale");
  EXPECT_TRUE(names(text, "call 1 of 'get_batch.labels' on rank 0 has the input of the call before it"))
      << text;
  EXPECT_FALSE(names(text, "call 1 of 'vocab_parallel_cross_entropy")) << text;
}

// Between two sends a rank of a ring receives at the same site.
TEST(ExplainedSites, ASendThatRepeatsTheSendBeforeIsNamed) {
  const std::string text = explained("cp_training", 2, {{"cp", 2}, {"rms_norm", 1}, {"microbatches", 2}},
                                     "ring_attention.forward:stale");
  EXPECT_TRUE(names(text, "of 'ring_attention.forward' on all ranks has the input of the call before it"))
      << text;
}

// The other half of the smallest buffer is padding, no multiple of which shows; nor can counts be scaled.
TEST(ExplainedSites, BlocksThatWentToOtherRanksAreNamedWhereNoMultipleShows) {
  const std::string shards =
      explained("gpt_training", 2, {{"distributed", 1}}, "data_parallel.reduce_scatter:next-block");
  EXPECT_TRUE(names(shards, "the first two blocks of 'data_parallel.reduce_scatter' change places"))
      << shards;
  const std::string counts = explained("moe_layer", 2, {{"etp", 2}, {"local_experts", 2}, {"dispatcher", 1}},
                                       "token_dispatcher.counts:next-block");
  EXPECT_TRUE(names(counts, "the first two blocks of 'token_dispatcher.counts' change places")) << counts;
}

// The last layer may be another than those before it.
TEST(ExplainedSites, TheLayerIsNamedWhereOneAloneIsWrong) {
  const Dimensions two_layers{{"tp", 2}, {"rms_norm", 1}, {"layers", 2}};
  const std::string scaled =
      explained("gpt_training", 2, two_layers, "row_parallel_linear.forward:scale=1/2@layer=1");
  EXPECT_TRUE(names(scaled, "the result of 'row_parallel_linear.forward' is multiplied by 2 in layer 1"))
      << scaled;
  const std::string unused =
      explained("gpt_training", 2, two_layers, "row_parallel_linear.forward:own-term@layer=1");
  EXPECT_TRUE(names(unused, "the result of 'row_parallel_linear.forward' in layer 1 is used on no rank"))
      << unused;
}

// Gradients of experts are averaged over other replicas than those of dense layers, at the same site.
TEST(ExplainedSites, TheKindOfGroupIsNamedWhereASiteHasSeveral) {
  const Dimensions two_experts{{"ep", 2}, {"rms_norm", 1}};
  const std::string of_experts =
      explained("moe_training", 4, two_experts, "data_parallel.all_reduce:scale=1/2@group=edp");
  EXPECT_TRUE(names(of_experts, "the result of 'data_parallel.all_reduce' over edp is multiplied by 2"))
      << of_experts;
  const std::string of_all = explained("moe_training", 4, two_experts, "data_parallel.all_reduce:scale=1/2");
  EXPECT_TRUE(names(of_all, "the result of 'data_parallel.all_reduce' is multiplied by 2")) << of_all;
}

// Padding is reduced, too, and the rank that holds nothing else uses none of it.
TEST(ExplainedSites, AShardOfPaddingIsNotNamedAsUnused) {
  const std::string text =
      explained("gpt_training", 2, {{"distributed", 1}, {"bucket", 1}, {"vocabulary", 2}},
                "data_parallel.reduce_scatter:scale=dp@call=1");
  EXPECT_TRUE(names(text, "'data_parallel.reduce_scatter'")) << text;
  EXPECT_FALSE(names(text, "is not used on rank 1")) << text;
}

// The gradient that is not summed was made by another call, which is right.
TEST(ExplainedSites, WhatReachesTheSameTensorsIsNotNamedBesideTheCallThatIsWrong) {
  const std::string text =
      explained("gpt_training", 2, {{"tp", 2}, {"sequence_parallel", 1}, {"vocabulary", 2}},
                "sequence_parallel_grads.sum:own-term@rank=1");
  EXPECT_FALSE(names(text, "get_batch")) << text;  // three times the id 0 is 0, and of others is refused
  EXPECT_TRUE(names(text, "'sequence_parallel_grads.sum' is not used on rank 1")) << text;
  EXPECT_FALSE(names(text, "column_parallel_linear.backward")) << text;
}

// The gradient of the output layer is in memory before that of the embedding is added.
TEST(ExplainedSites, AKernelThatForgetsWhatWasThereIsNamed) {
  const std::string text = explained("tied_embedding", 2, {}, "device.add_to_rows:drop-accumulate");
  EXPECT_EQ(text, "all is right if 'device.add_to_rows' adds to what was there on all ranks");
}

// Half of that gradient is missing, and twice of what was there would make it right.
TEST(ExplainedSites, AKernelThatAddsIsNotSaidToForgetWhatWasThere) {
  const std::string text = explained("tied_embedding", 2, {{"sequence_parallel", 1}},
                                     "column_parallel_linear.backward_input:scale=1/tp");
  EXPECT_TRUE(names(text, "the result of 'column_parallel_linear.backward_input' is multiplied by 2 on all"))
      << text;
  EXPECT_FALSE(names(text, "device.add_to_rows")) << text;
}

// With this seed rank 1 holds no row of a token, and what was there is all that it should have.
TEST(ExplainedSites, WhatMakesAllRightWithOneSeedAloneIsNotNamed) {
  constexpr std::uint64_t kSeed = 2;
  const std::string text = explained("tied_embedding", 2, {}, "device.add_to_rows:zero@rank=1", kSeed);
  EXPECT_EQ(text.find("every result of 'device.add_to_rows' is zero or is not used on rank 1"), 0U) << text;
}

// The reader finds the call without a search.
TEST(ExplainedSites, TheLineOfACallIsSaid) {
  const Case& layer = *verify::find_case("row_parallel_linear");
  Bench bench;
  bench.plant({verify::parsed_fault("row_parallel_linear.forward:scale=1/tp")});
  const std::string text =
      explanation(bench, layer, verify::all_properties().front(), smallest(layer, 2, {}));
  EXPECT_TRUE(names(text, " by 2 on all ranks. 'row_parallel_linear.forward' is called at ")) << text;
  EXPECT_TRUE(names(text, "sim/parallel/row_parallel_linear.cpp:")) << text;
}

// The copy of a tied embedding begins as zeros of both signs.
TEST(ExplainedSites, NegativeZerosHaveNoPrecision) {
  const Case& the_case = *verify::find_case("gpt_training");
  CaseSetting setting = smallest(the_case, 2, {{"pp", 2}, {"tied", 1}, {"vocabulary", 2}});
  setting.dtype = sim::DType::f32;
  Bench bench;
  bench.plant({verify::parsed_fault("tied_embeddings.grads:dtype=bf16")});
  const std::string text = explanation(bench, the_case, verify::all_properties().front(), setting);
  EXPECT_TRUE(names(text, "What ranks give to 'tied_embeddings.grads' has the precision of bf16")) << text;
  EXPECT_FALSE(names(text, "'tied_embeddings.tie'")) << text;
}

// One loss is all that is wrong, and whatever kernels compute on the way to it may be the reason.
TEST(ExplainedSites, ACallIsNotBlamedAloneForWhatKernelsReachToo) {
  const std::string text = explained("tied_embedding", 2, {{"sequence_parallel", 1}},
                                     "vocab_parallel_cross_entropy.sum:scale=1+2^-10");
  EXPECT_TRUE(names(text, "'vocab_parallel_cross_entropy.sum' or ")) << text;
  EXPECT_TRUE(names(text, "' and several kernels reach: what is wrong may lie between them")) << text;
}

// Ids have no precision that a cast could take from them.
TEST(ExplainedSites, IdsAreNotSaidToBeRounded) {
  const Case& the_case = *verify::find_case("gpt_training");
  CaseSetting setting = smallest(the_case, 2, {{"tp", 2}, {"rms_norm", 1}, {"hidden", 3}});
  setting.dtype = sim::DType::f32;
  Bench bench;
  bench.plant({verify::parsed_fault("row_parallel_linear.forward:dtype=bf16")});
  const std::string text = explanation(bench, the_case, verify::all_properties().front(), setting);
  EXPECT_TRUE(names(text, "What ranks give to 'row_parallel_linear.forward' has the precision of bf16"))
      << text;
}

/// A broadcast from place 1, which every rank makes with the size of its group as the root.
class RootCase : public verify::CaseOf<RootCase> {
 public:
  std::string name() const override { return "root"; }
  std::vector<verify::Dimension> dimensions() const override { return {{"width", 1, 3}}; }
  std::vector<verify::CaseOutput> outputs(const CaseSetting&) const override { return {{"x"}}; }
  std::vector<verify::ExpectedCall> calls(const CaseSetting& s) const override {
    return {{.site = "root.send",
             .operation = sim::Operation::broadcast,
             .elements = s["width"],
             .root_or_peer = 1}};
  }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const sim::Tensor x = drawn(rank, s, "x", {1, s["width"]});
    sim::Communicator& tp = rank.groups.get("tp");
    tp.broadcast(x, tp.size(), "root.send");
    rank.publish("x", x);
  }
  template <typename Scalar>
  verify::Wholes<Scalar> reference(const verify::Inputs<Scalar>& inputs, const CaseSetting& s) const {
    return {{"x", inputs.matrix("x", 1, s["width"])}};
  }
};

TEST(ExplainedCalls, ARootThatIsRefusedIsNamedBesideTheRightOne) {
  const RootCase the_case;
  Bench bench;
  const std::string why =
      explanation(bench, the_case, verify::property_named("serial"), smallest(the_case, 2, {{"width", 3}}));
  EXPECT_EQ(
      why.find("on all ranks: broadcast 'root.send' of 3, root 1 is broadcast 'root.send' of 3, root 2 ("),
      0U)
      << why;
}

/// Rank 0 gets two messages from rank 1, which sends one.
class ForgottenSendCase : public verify::CaseOf<ForgottenSendCase> {
 public:
  std::string name() const override { return "forgotten_send"; }
  std::vector<verify::Dimension> dimensions() const override { return {{"width", 1, 3}}; }
  std::vector<verify::CaseOutput> outputs(const CaseSetting&) const override { return {{"x"}}; }
  std::vector<verify::ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  verify::ExpectedRun expected_of(const CaseSetting& s, int rank) const override {
    if (rank > 1) return {};
    const auto one = rank == 0 ? sim::Operation::recv : sim::Operation::send;
    return {.calls = {{.site = "a", .operation = one, .elements = s["width"], .root_or_peer = 1 - rank},
                      {.site = "b", .operation = one, .elements = s["width"], .root_or_peer = 1 - rank}}};
  }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const sim::Tensor x = drawn(rank, s, "x", {1, s["width"]});
    sim::Communicator& tp = rank.groups.get("tp");
    if (tp.rank() == 1) tp.send(x, 0, "a");
    if (tp.rank() == 0) tp.recv(x, 1, "a");
    if (tp.rank() == 0) tp.recv(x, 1, "b");
    rank.publish("x", x);
  }
  template <typename Scalar>
  verify::Wholes<Scalar> reference(const verify::Inputs<Scalar>& inputs, const CaseSetting& s) const {
    return {{"x", inputs.matrix("x", 1, s["width"])}};
  }
};

// The rank that forgets has ended, and all that it did not call is missing.
TEST(ExplainedCalls, TheRankThatForgetsASendIsNamed) {
  const ForgottenSendCase the_case;
  Bench bench;
  const std::string why =
      explanation(bench, the_case, verify::property_named("serial"), smallest(the_case, 2, {{"width", 3}}));
  EXPECT_EQ(why.find("on rank 1: send 'b' of 3, to 0 is missing (after 'a' ("), 0U) << why;
  EXPECT_FALSE(names(why, "on rank 0")) << why;
}

/// A training of one number, whose checkpoint keeps the rounded value in place of the main one.
class RoundedCheckpointCase : public verify::CaseOf<RoundedCheckpointCase> {
 public:
  std::string name() const override { return "rounded_checkpoint"; }
  std::vector<verify::Dimension> dimensions() const override { return {{"steps", 1, 4}}; }
  std::vector<verify::CaseOutput> outputs(const CaseSetting&) const override { return {{"main"}, {"value"}}; }
  std::vector<verify::ExpectedCall> calls(const CaseSetting&) const override { return {}; }
  std::vector<CaseSetting> stretches(const CaseSetting& s) const override { return in_stretches(s, s); }
  void run(sim::Rank& rank, const CaseSetting& s) const override {
    const sim::DType sums = sim::sum_dtype(s.dtype);
    sim::Tensor main = sim::scale(sim::filled(rank.device, sums, {1, 1}, 1), {1, 3});
    if (verify::first_step(s) > 0) {
      const std::string bytes = s.stretch->store->read("value").value();
      main = sim::cast(sim::from_host(rank.device, s.dtype, {1, 1}, std::as_bytes(std::span(bytes))), sums);
    }
    for (auto step = verify::first_step(s); step < verify::end_step(s); ++step)
      main = sim::scale(main, {1, 3});
    const sim::Tensor value = sim::cast(main, s.dtype);
    const std::vector<std::byte> bytes = sim::host_bytes(value);
    if (s.stretch && s.stretch->saves)
      s.stretch->store->write("value", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    rank.publish("main", main);
    rank.publish("value", value);
  }
  template <typename Scalar>
  verify::Wholes<Scalar> reference(const verify::Inputs<Scalar>& inputs, const CaseSetting& s) const {
    const auto& number = inputs.number();
    auto x = number.of(1, 3);
    for (auto step = verify::first_step(s); step < verify::end_step(s); ++step) x = x * number.of(1, 3);
    const auto whole = verify::reference::matrix_of(number, 1, 1, [&](auto, auto) { return x; });
    return {{"main", whole}, {"value", whole}};
  }
};

TEST(ExplainedResume, WhatIsRoundedInACheckpointIsNamed) {
  const RoundedCheckpointCase the_case;
  Bench bench;
  CaseSetting setting = smallest(the_case, 1, {{"steps", 3}});
  setting.dtype = sim::DType::bf16;
  const verify::Property& resumes = verify::property_named("resumes");
  EXPECT_FALSE(resumes.judge(bench, the_case, setting).holds);
  const std::string why = explanation(bench, the_case, resumes, setting);
  EXPECT_EQ(
      why,
      "saved after step 1, loaded on tp 1, before any other step: in bf16, and not in the field, main is "
      "not what a training has that was not stopped.");
}

}  // namespace
