// Proves that coefficients are read as the exact ratios that their decimal numbers are, and that options
// about experts have Megatron's defaults.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <string>

#include "verify/requests/model_options.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/settings.h"
#include "verify/vocabulary/spelled_values.h"

namespace {

using namespace verify;

constexpr const char *kSmall =
                         "1e"
                         "-3",
                     *kWithPoint =
                         "12.5E"
                         "-1",
                     *kTooSmall =
                         "1e"
                         "-10";

std::string ratio_of(const char* text) {
  const auto ratio = decimal_ratio(text);
  return ratio ? fmt::format("{}/{}", ratio->numerator, ratio->denominator) : "none";
}

TEST(ExpertOptions, DecimalNumbersAreRatiosInLowestTerms) {
  EXPECT_EQ(ratio_of("2.5"), "5/2");
  EXPECT_EQ(ratio_of(".0001"), "1/10000");
  EXPECT_EQ(ratio_of(kSmall), ratio_of(".001"));
  EXPECT_EQ(ratio_of(kWithPoint), "5/4");
  EXPECT_EQ(ratio_of("1e3"), "1000/1");
  EXPECT_EQ(ratio_of("-.5"), "-1/2");
  EXPECT_EQ(ratio_of("+3."), "3/1");
  EXPECT_EQ(ratio_of("0"), "0/1");
  EXPECT_EQ(ratio_of("0.0"), "0/1");
  EXPECT_EQ(ratio_of("2147483648"), "2147483648/1");
  for (const char* none : {"", ".", "-", "e1", "1e", "1e1.5", "1.2.3", "0x1", "inf", "nan", "1 2",
                           "2147483649", kTooSmall, "1e99", "1e999999999999999999999", "0.1234567891234"})
    EXPECT_EQ(ratio_of(none), "none") << none;
}

TEST(ExpertOptions, HaveMegatronsDefaults) {
  Settings settings;
  const sim::GptExperts dense = expert_options(settings);
  EXPECT_EQ(dense.num_experts, 0);
  EXPECT_FALSE(dense.are_in(0));
  settings.append("num-experts", {"4"});
  settings.append("ffn-hidden-size", {"24"});
  settings.append("moe-layer-freq", {"2"});
  settings.append("moe-expert-capacity-factor", {"-1"});
  settings.append("moe-z-loss-coeff", {"0"});
  settings.append("moe-router-load-balancing-type", {"seq_aux_loss", "global_aux_loss"});
  settings.append("moe-aux-loss-coeff", {"0.5", "0.25"});
  const sim::GptExperts experts = expert_options(settings);
  EXPECT_EQ(experts.moe_ffn_hidden_size, 24) << "as wide as an MLP";
  EXPECT_EQ(experts.routing.topk, 2);
  EXPECT_EQ(experts.routing.score_function, sim::ScoreFunction::softmax);
  EXPECT_EQ(experts.dispatcher, sim::TokenDispatcherType::allgather);
  EXPECT_TRUE(experts.are_in(0));
  EXPECT_FALSE(experts.are_in(1));
  EXPECT_FALSE(experts.token_dropping) << "a factor below 0 is none";
  EXPECT_FALSE(experts.z_loss_coefficient) << "a coefficient of 0 is no loss";
  ASSERT_EQ(experts.aux_losses.size(), 2U);
  EXPECT_EQ(experts.aux_losses[1].kind, sim::AuxLossKind::global_aux_loss);
  EXPECT_EQ(experts.aux_losses[1].coefficient.denominator, 4);
}

TEST(ExpertOptions, PatternsCountTheirLayers) {
  for (const char* text : {"1", "2", "3", "[0]*2+[1]*3", "([1]*2+[0])*2"}) {
    const sim::LayerPattern pattern = parse_layer_pattern(text);
    std::int64_t counted = 0;
    for (std::int64_t layer = 0; layer < 8; ++layer) {
      EXPECT_EQ(pattern.count(layer), counted) << text << " " << layer;
      if (pattern.has(layer)) ++counted;
    }
  }
}

}  // namespace
