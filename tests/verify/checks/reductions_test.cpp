// Proves that a trained model's list of what it has less of names what differs, and nothing else.

#include "verify/checks/reductions.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/support/request.h"
#include "verify/checks/trained_model.h"

namespace {

using namespace verify;
using Names = std::vector<std::string>;

sim::GptConfig large() {
  sim::GptConfig model{.num_layers = 60,
                       .hidden_size = 6656,
                       .ffn_hidden_size = 17920,
                       .num_attention_heads = 52,
                       .num_query_groups = 52,
                       .kv_channels = 128,
                       .seq_length = 4096,
                       .vocab_size = 32000};
  model.experts.num_experts = 8;
  model.experts.routing.topk = 2;
  model.experts.moe_ffn_hidden_size = 1024;
  return model;
}

TEST(Reductions, NoneOfTheModelItself) { EXPECT_EQ(reductions(large(), large()), Names()); }

TEST(Reductions, NameEachSizeThatDiffers) {
  sim::GptConfig trained = large();
  trained.num_layers = 4;
  trained.hidden_size = 8;
  trained.experts.routing.topk = 1;
  EXPECT_EQ(reductions(large(), trained),
            (Names{"layers 60 to 4", "hidden 6,656 to 8", "experts of a token 2 to 1"}));
}

TEST(Reductions, ASizeThatIsNotKnownIsNotCompared) {
  sim::GptConfig own;
  own.micro_batch_size = large().micro_batch_size;
  EXPECT_EQ(reductions(own, large()), Names());
}

/// One size of a scenario is drawn. The list of its training names it unless the training has it.
RC_GTEST_PROP(Reductions, ATrainingSaysWhatItMadeSmaller, ()) {
  const std::int64_t layers = *rc::gen::inRange<std::int64_t>(1, 9), hidden = 8 * *rc::gen::inRange(1, 9);
  const TrainedModel trained = trained_model(test::scenario_request({{"world-size", "1"},
                                                                     {"num-layers", std::to_string(layers)},
                                                                     {"hidden-size", std::to_string(hidden)},
                                                                     {"num-attention-heads", "4"},
                                                                     {"vocab-size", "512"},
                                                                     {"seq-length", "16"},
                                                                     {"global-batch-size", "2"}}));
  RC_ASSERT(!trained.is_whole);
  RC_ASSERT(std::ranges::count(trained.reduced, "vocabulary 512 to 256") == 1);
  RC_ASSERT(std::ranges::count(trained.reduced, "hidden " + std::to_string(hidden) + " to 4") == 1);
  RC_ASSERT(std::ranges::count(trained.reduced, "layers " + std::to_string(layers) + " to 1") ==
            (layers > 1 ? 1 : 0));
}

TEST(Reductions, AWholeTrainingHasNone) {
  const TrainedModel trained = trained_model(test::scenario_request({{"world-size", "1"},
                                                                     {"num-layers", "2"},
                                                                     {"hidden-size", "8"},
                                                                     {"num-attention-heads", "2"},
                                                                     {"vocab-size", "256"},
                                                                     {"seq-length", "16"},
                                                                     {"global-batch-size", "2"}}));
  EXPECT_TRUE(trained.is_whole);
  EXPECT_EQ(trained.reduced, Names());
}

}  // namespace
