// Proves which layers have a sliding window, and how far they see, by the arguments of a run.

#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <string>

#include "tests/support/refusal_code.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/megatron_rules/rule_table.h"
#include "verify/megatron_rules/run_values.h"
#include "verify/run_arguments/run_file.h"
#include "verify/vocabulary/layer_pattern.h"
#include "verify/vocabulary/settings.h"

namespace {

using namespace verify;

sim::AttentionWindow window_of(const std::string& size, const std::string& layers = "",
                               const std::string& num_layers = "4") {
  Settings settings;
  settings.append("window-size", {size});
  settings.append("num-layers", {num_layers});
  if (!layers.empty()) settings.append("window-attn-skip-freq", {layers});
  return attention_window(settings);
}

/// Returns a 1 for each of four layers that has a window, and else a 0.
std::string layers_of(const sim::AttentionWindow& window) {
  std::string all;
  for (std::int64_t layer = 0; layer < 4; ++layer) all += window.is_in(layer) ? '1' : '0';
  return all;
}

TEST(AttentionWindow, IsTheFirstOfTwoNumbers) {
  const std::map<std::string, std::int64_t> sizes = {{"128,0", 128}, {"(128, 0)", 128}, {"[128,0]", 128},
                                                     {"0,0", 0},     {"64,64", 64},     {"-1,0", -1},
                                                     {"(-1,-1)", -1}};
  for (const auto& [text, size] : sizes) EXPECT_EQ(window_of(text).size, size) << text;
  EXPECT_EQ(attention_window(Settings()).size, -1);
  for (const char* text : {"128", "128,", "a,0", "1,2,3", "-1,5", "-2,0", "", "1 2"})
    EXPECT_EQ(test::refusal_code([&] { window_of(text); }), "window_size") << text;
}

TEST(AttentionWindow, IsInAllLayersButEveryNth) {
  const std::map<std::string, std::string> layers = {
      {"", "1111"},  {"1", "0000"},         {"2", "1010"},           {"3", "1101"},          {"4", "1110"},
      {"5", "1111"}, {"[1,0,0,1]", "1001"}, {"([0]+[1])*2", "0101"}, {"[1]*3+[0]*5", "1110"}};
  for (const auto& [pattern, has] : layers) EXPECT_EQ(layers_of(window_of("8,0", pattern)), has) << pattern;
  EXPECT_EQ(layers_of(window_of("-1,0", "2")), "0000") << "there is no window to have";
  EXPECT_EQ(test::refusal_code([] { window_of("8,0", "[1]*3"); }), "window_layers");
  EXPECT_EQ(test::refusal_code([] { window_of("8,0", "[1"); }), "layer_pattern");
  EXPECT_EQ(test::refusal_code([] { window_of("-1,0", "[1"); }), "layer_pattern");
}

/// Returns the warning about the window of a run, or "".
std::string warning_of(const std::string& arguments) {
  const RunArguments run = read_run_text(
      "torchrun --nproc_per_node 2 pretrain_gpt.py --num-attention-heads 8 --tensor-model-parallel-size 2 " +
          arguments,
      {});
  for (const sim::Warning& warning : table_warnings("run", RuleFacts(RunValues(run), {}, std::nullopt)))
    if (warning.name.starts_with("window")) return warning.name + ": " + warning.message;
  return "";
}

TEST(AttentionWindow, IsAnotherOneInTheLocalAttentionOfMegatron) {
  const std::string local = "--transformer-impl local --seq-length 4096 --window-size ";
  EXPECT_EQ(warning_of("--seq-length 4096 --bf16 --window-size 128,0"), "") << "in Transformer Engine";
  EXPECT_EQ(warning_of(local + "128,0"), "") << "in fp32";
  EXPECT_EQ(
      warning_of(local + "128,0 --bf16"),
      "window_ignored: --window-size 128,0 has no effect: with --transformer-impl local, a fused softmax "
      "in 16 bits masks only what comes after a token; --no-masked-softmax-fusion gives the layers "
      "their window");
  EXPECT_EQ(warning_of(local + "128,0 --bf16 --no-masked-softmax-fusion"), "");
  EXPECT_EQ(warning_of(local + "128,0 --bf16 --seq-length 8192"), "") << "the fused softmax takes 4,096 keys";
  EXPECT_EQ(warning_of(local + "128,0 --bf16 --num-attention-heads 6"), "") << "rows that 4 does not divide";
  EXPECT_EQ(warning_of(local + "8,0 --bf16 --seq-length 64"), "") << "rows that 8 does not divide";
  EXPECT_EQ(warning_of(local + "128,0 --bf16 --softmax-type learnable"), "") << "no fused softmax has sinks";
  EXPECT_EQ(
      warning_of(local + "128,64"),
      "window_behind_a_token: --window-size 128,64 is not causal: with --transformer-impl local, a token "
      "also sees 64 tokens after it; --window-size 128,0 is causal");
  EXPECT_EQ(
      warning_of(local + "-1,0"),
      "window_without_keys: --window-size -1,0 masks every key: with --transformer-impl local, each token "
      "then attends to all tokens alike; leave --window-size out, where no layer has a window");
}

}  // namespace
