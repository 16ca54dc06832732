// Proves that kinds of context parallelism which no run could have are refused before any work, and that a
// run whose heads cannot be exchanged is warned of.

#include <gtest/gtest.h>
#include <map>
#include <string>

#include "tests/support/run.h"
#include "verify/megatron_rules/megatron_validation.h"
#include "verify/requests/model_options.h"
#include "verify/vocabulary/settings.h"

namespace {

using namespace verify;
using sim::CpCommType;

constexpr const char* kLayout =
    "replay --layout-only --world-size 8 --context-parallel-size 4 --tensor-model-parallel-size 2 ";

/// Returns what replay says about these options.
std::string said(const std::string& options) {
  const test::RunResult result = test::run(kLayout + options);
  return result.out + result.err;
}

TEST(ContextOptions, AreKindsOfAllLayersOrOfEach) {
  Settings settings;
  EXPECT_TRUE(cp_comm_types(settings).empty());
  settings.append("cp-comm-type", {"p2p", "a2a+p2p"});
  EXPECT_EQ(cp_comm_types(settings), (std::vector<CpCommType>{CpCommType::p2p, CpCommType::a2a_p2p}));
}

TEST(ContextOptions, AreRefusedWhereNoRunCouldHaveThem) {
  const std::map<std::string, std::string> refused = {
      {"--cp-comm-type p2p,a2a --num-layers 3", "cp_comm_types"},
      {"--cp-comm-type a2a+p2p", "cp_levels"},
      {"--cp-comm-type a2a --num-attention-heads 6", "cp_heads"},
      {"--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2,2 --num-attention-heads 6",
       "cp_heads"},
      {"--window-size 8,0", "cp_window"},
      {"--window-size 8,0 --num-layers 2 --window-attn-skip-freq 2 --cp-comm-type p2p,a2a", "cp_window"}};
  for (const auto& [options, code] : refused)
    EXPECT_NE(said(options).find("REFUSED  " + code), std::string::npos) << options;
  for (const char* options :
       {"--cp-comm-type a2a --num-attention-heads 8", "--num-attention-heads 6",
        "--window-size 8,0 --cp-comm-type all_gather", "--window-size -1,0",
        "--window-size 8,0 --num-layers 2 --window-attn-skip-freq 2 --cp-comm-type a2a,p2p"})
    EXPECT_EQ(said(options).find("REFUSED"), std::string::npos) << options;
}

// A run whose levels leave no ring has the window of a2a.
TEST(ContextOptions, AWindowOfARunThatARingDoesNotHaveIsWarnedOf) {
  Settings settings;
  settings.append("context-parallel-size", {"4"});
  settings.append("window-size", {"128,0"});
  ASSERT_EQ(context_warnings(settings).size(), 1U);
  EXPECT_EQ(
      context_warnings(settings).front().message,
      "p2p in layer 1, which sees 128 tokens before each, but Transformer Engine has a sliding window only "
      "with a2a and all_gather; TransformerEngine stops at the first layer");
  settings.append("cp-comm-type", {"a2a+p2p"});
  settings.append("hierarchical-context-parallel-sizes", {"4", "1"});
  EXPECT_TRUE(context_warnings(settings).empty());
}

TEST(ContextOptions, HeadsOfARunThatCannotBeExchangedAreWarnedOf) {
  Settings settings;
  settings.append("context-parallel-size", {"4"});
  settings.append("cp-comm-type", {"a2a"});
  settings.append("num-attention-heads", {"8"});
  EXPECT_TRUE(context_warnings(settings).empty());
  settings.append("tensor-model-parallel-size", {"4"});
  ASSERT_EQ(context_warnings(settings).size(), 1U);
  EXPECT_EQ(context_warnings(settings).front().name, "cp_heads");
  settings.append("multi-latent-attention", {"true"});
  ASSERT_EQ(context_warnings(settings).size(), 2U);
  EXPECT_EQ(context_warnings(settings).back().name, "cp_latent");
}

}  // namespace
