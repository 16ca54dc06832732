// Proves that the program gives what Megatron itself computes, line by line, through the command line.
// The data are copies of lines that Megatron's own index arithmetic produced, and tests/oracle/README.md
// explains how to read them.

#include <cstddef>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/run.h"

namespace {

using nlohmann::ordered_json;

std::vector<ordered_json> lines_of(const std::string& file) {
  std::ifstream stream(std::string(SHARDPROOF_TEST_DATA) + "/" + file);
  std::vector<ordered_json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(ordered_json::parse(line));
  EXPECT_FALSE(lines.empty()) << file;
  return lines;
}

class Words {
 public:
  Words(std::vector<std::string> start, const ordered_json& config)
      : words_(std::move(start)), config_(config) {}
  /// Adds "--option value" if the line has a value under `key`, or a bare "--option" if that value is true.
  Words& option(const std::string& option, const std::string& key) {
    if (!config_.contains(key) || config_[key].is_null()) return *this;
    const ordered_json& value = config_[key];
    if (value.is_boolean()) {
      if (value.get<bool>()) words_.push_back(option);
      return *this;
    }
    words_.push_back(option);
    words_.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    return *this;
  }
  std::vector<std::string> words_;

 private:
  const ordered_json& config_;
};

struct Answer {
  int exit_code;
  ordered_json document;
};

Answer ask(std::vector<std::string> words) {
  words.insert(words.end(), {"--format", "json"});
  const test::RunResult result = test::run(words);
  return {result.exit_code, ordered_json::parse(result.out)};
}

TEST(Oracle, Groups) {
  int checked = 0;
  for (const ordered_json& line : lines_of("groups.jsonl")) {
    const ordered_json& config = line["config"];
    Words words({"groups"}, config);
    words.option("--world-size", "world")
        .option("--tensor-model-parallel-size", "tp")
        .option("--context-parallel-size", "cp")
        .option("--expert-model-parallel-size", "ep")
        .option("--expert-tensor-parallel-size", "etp")
        .option("--pipeline-model-parallel-size", "pp")
        .option("--virtual-pipeline-model-parallel-size", "vpp")
        .option("--num-distributed-optimizer-instances", "ndoi")
        .option("--rank-offset", "rank_offset")
        .option("--local-world-size", "local_world")
        .option("--order", "order");
    if (config.contains("hcp")) {
      words.words_.emplace_back("--hierarchical-context-parallel-sizes");
      for (const auto& size : config["hcp"]) words.words_.push_back(size.dump());
    }
    const Answer answer = ask(words.words_);
    if (line.contains("error")) {
      EXPECT_EQ(answer.exit_code, 2) << config.dump();
      EXPECT_EQ(answer.document["error"]["code"].dump(), line["error"]["code"].dump()) << config.dump();
    } else {
      ASSERT_EQ(answer.exit_code, 0) << config.dump() << answer.document.dump();
      EXPECT_EQ(answer.document["groups"].dump(), line["groups"].dump())
          << config.dump();  // lists, kinds and their creation order
      EXPECT_EQ(answer.document["derived"].dump(), line["derived"].dump()) << config.dump();
      EXPECT_EQ(answer.document["world_size"].dump(), config["world"].dump()) << config.dump();
    }
    ++checked;
  }
  EXPECT_EQ(checked, 124);
}

TEST(Oracle, LegacyGroups) {
  int checked = 0;
  for (const ordered_json& line : lines_of("legacy_groups.jsonl")) {
    const ordered_json& config = line["config"];
    const auto ask_legacy = [&](const std::vector<std::string>& more) {
      Words words({"groups", "--rules", "legacy"}, config);
      words.option("--world-size", "world")
          .option("--tensor-model-parallel-size", "tp")
          .option("--pipeline-model-parallel-size", "pp")
          .option("--virtual-pipeline-model-parallel-size", "vpp")
          .option("--pipeline-model-parallel-split-rank", "split_rank");
      words.words_.insert(words.words_.end(), more.begin(), more.end());
      return ask(words.words_);
    };
    const Answer answer = ask_legacy({});
    ++checked;
    if (line.contains("error")) {
      EXPECT_EQ(answer.exit_code, 2) << config.dump();
      EXPECT_EQ(answer.document["error"]["code"].get<std::string>(), "dense_div") << config.dump();
      continue;
    }
    ASSERT_EQ(answer.exit_code, 0) << config.dump() << answer.document.dump();
    EXPECT_EQ(answer.document["groups"].dump(), line["groups"].dump()) << config.dump();
    EXPECT_EQ(answer.document["effective"].dump(), line["effective"].dump()) << config.dump();
    std::size_t calls = 0;
    for (const auto& lists : answer.document["groups"]) calls += lists.size();
    EXPECT_EQ(calls, line["n_new_group_calls"].get<std::size_t>()) << config.dump();
    for (const auto& [rank, view] : line["rank_view"].items()) {
      const ordered_json groups = ask_legacy({"--rank", rank}).document["groups"];
      EXPECT_EQ(groups["dp"][0].dump(), view["dp"].dump()) << config.dump() << rank;
      EXPECT_EQ(groups["mp"][0].dump(), view["mp"].dump()) << config.dump() << rank;
      EXPECT_EQ(groups["tp"][0].dump(), view["tp"].dump()) << config.dump() << rank;
      EXPECT_EQ(groups["pp"][0].dump(), view["pipeline_global_ranks"].dump()) << config.dump() << rank;
      EXPECT_EQ(!groups["embd"].empty(), view["in_embedding_group"].get<bool>()) << config.dump() << rank;
      EXPECT_EQ(!groups["pos_embd"].empty(), view["in_position_embedding_group"].get<bool>())
          << config.dump() << rank;
    }
  }
  EXPECT_EQ(checked, 40);
}

/// Whether `code` is a right name for our refusal where Megatron raises `error`.
bool names_the_reason(const std::string& code, const std::string& error) {
  const auto one_of = [&](const std::set<std::string>& codes) { return codes.contains(code); };
  if (error.find("must be loss") != std::string::npos ||
      error.find("must be embedding") != std::string::npos) {
    return one_of({"layout_ends"});
  }
  if (error.find("before MTP") != std::string::npos) return one_of({"layout_mtp"});
  if (error.find("given to encoder") != std::string::npos)
    return one_of({"layers_encoder_div", "split_rank_range"});
  if (error.find("given to decoder") != std::string::npos)
    return one_of({"layers_decoder_div", "split_rank_range"});
  if (error.find("transformer_pipeline") != std::string::npos) return one_of({"layers_pp_div"});
  if (error.find("ZeroDivisionError") != std::string::npos)
    return one_of({"uneven_no_middle", "split_rank_range"});
  return one_of({"layers_pp_div", "layers_vpp_div", "uneven_middle", "split_rank_missing"});
}

/// Lines that Megatron's arithmetic accepts and that we refuse on purpose.
const std::map<int, std::string> kLayersRefusedOnPurpose = {
    {52, "one pipeline rank with both ends given: of 3 layers only 1 would be built"},
};

TEST(Oracle, Layers) {
  int checked = 0;
  for (const ordered_json& line : lines_of("layers.jsonl")) {
    const ordered_json& config = line["config"];
    const Answer answer = ask(Words({"layers"}, config)
                                  .option("--num-layers", "num_layers")
                                  .option("--pipeline-model-parallel-size", "pp")
                                  .option("--virtual-pipeline-model-parallel-size", "vpp")
                                  .option("--decoder-first-pipeline-num-layers", "first")
                                  .option("--decoder-last-pipeline-num-layers", "last")
                                  .option("--account-for-embedding-in-pipeline-split", "account_embedding")
                                  .option("--account-for-loss-in-pipeline-split", "account_loss")
                                  .option("--pipeline-model-parallel-layout", "layout")
                                  .option("--mtp-num-layers", "mtp_num_layers")
                                  .words_);
    ++checked;
    const auto& expected =
        line.contains("error") ? line["error"] : line["per_pp_rank_per_chunk_[count,offset]"];
    const bool megatron_raises = line.contains("error") || expected.dump().find("error") != std::string::npos;
    if (megatron_raises || kLayersRefusedOnPurpose.contains(line["id"].get<int>())) {
      EXPECT_EQ(answer.exit_code, 2) << config.dump();
      if (megatron_raises) {
        EXPECT_TRUE(names_the_reason(answer.document["error"]["code"], expected.dump()))
            << config.dump() << answer.document.dump();
      }
      continue;
    }
    ASSERT_EQ(answer.exit_code, 0) << config.dump() << answer.document.dump();
    ordered_json stages = ordered_json::array();
    for (const auto& rank : answer.document["stages"]) {
      stages.push_back(ordered_json::array());
      for (const auto& stage : rank) stages.back().push_back({stage["count"], stage["offset"]});
    }
    EXPECT_EQ(stages.dump(), expected.dump()) << config.dump();
  }
  EXPECT_EQ(checked, 60);
}

const std::map<int, std::string> kLegacyLayersRefusedOnPurpose = {
    {64,
     "split 0 with a standalone embedding stage gives the encoder -1 ranks; Python's 96 % -1 is 0, so the "
     "seeds go "
     "on and build no encoder layer at all"},
};

TEST(Oracle, LegacyLayers) {
  int checked = 0;
  for (const ordered_json& line : lines_of("legacy_layers.jsonl")) {
    const ordered_json& config = line["config"];
    const Answer answer = ask(Words({"layers", "--rules", "legacy"}, config)
                                  .option("--num-layers", "num_layers")
                                  .option("--pipeline-model-parallel-size", "pp")
                                  .option("--pipeline-model-parallel-split-rank", "split_rank")
                                  .option("--standalone-embedding-stage", "standalone_embedding_stage")
                                  .option("--encoder-and-decoder", "encoder_and_decoder")
                                  .words_);
    ++checked;
    if (line["sum"].is_null() || kLegacyLayersRefusedOnPurpose.contains(line["id"].get<int>())) {
      EXPECT_EQ(answer.exit_code, 2) << config.dump();
      if (line["sum"].is_null()) {
        EXPECT_TRUE(names_the_reason(answer.document["error"]["code"], line["per_rank"].dump()))
            << config.dump() << answer.document.dump();
      }
      continue;
    }
    ASSERT_EQ(answer.exit_code, 0) << config.dump() << answer.document.dump();
    ordered_json counts = ordered_json::array();
    for (const auto& rank : answer.document["stages"]) counts.push_back(rank[0]["count"]);
    EXPECT_EQ(counts.dump(), line["per_rank"].dump()) << config.dump();
  }
  EXPECT_EQ(checked, 40);
}

TEST(Oracle, Schedule) {
  int checked = 0;
  for (const ordered_json& line : lines_of("schedule.jsonl")) {
    const ordered_json& config = line["config"];
    const Answer answer = ask(Words({"schedule"}, config)
                                  .option("--pipeline-model-parallel-size", "pp")
                                  .option("--num-microbatches", "microbatches")
                                  .option("--virtual-pipeline-model-parallel-size", "vpp")
                                  .option("--microbatch-group-size-per-virtual-pipeline-stage", "group_size")
                                  .option("--forward-only", "forward_only")
                                  .option("--overlap-moe-expert-parallel-comm", "overlap_moe_ep_comm")
                                  .words_);
    ++checked;
    if (line.contains("error")) {
      const bool is_group_size = line["error"]["type"] == "ValueError";
      EXPECT_EQ(answer.exit_code, 2) << config.dump();
      EXPECT_EQ(answer.document["error"]["code"],
                is_group_size ? "microbatch_group_size" : "microbatch_group_remainder")
          << config.dump();
      continue;
    }
    ASSERT_EQ(answer.exit_code, 0) << config.dump() << answer.document.dump();
    EXPECT_EQ(answer.document["ranks"].dump(), line["ranks"].dump()) << config.dump();
  }
  EXPECT_EQ(checked, 14);
}

std::string joined(const ordered_json& numbers) {
  std::string text;
  for (const auto& number : numbers) text += (text.empty() ? "" : ",") + number.dump();
  return text;
}

TEST(Oracle, Shards) {
  int checked = 0;
  for (const ordered_json& line : lines_of("zero.jsonl")) {
    const ordered_json& config = line["config"];
    std::vector<std::string> words = {"shards", "--param-sizes", joined(config["sizes"]),
                                      "--data-parallel-size", config["dp"].dump()};
    if (!config["bucket_size"].is_null())
      words.insert(words.end(), {"--bucket-size", config["bucket_size"].dump()});
    if (!config["shared_embedding"].empty())
      words.insert(words.end(), {"--shared-embedding", joined(config["shared_embedding"])});
    if (config["pad_buckets_for_high_nccl_busbw"].get<bool>())
      words.emplace_back("--pad-buckets-for-high-nccl-busbw");
    if (!config["use_distributed_optimizer"].get<bool>()) words.emplace_back("--no-distributed-optimizer");
    const Answer answer = ask(words);
    ASSERT_EQ(answer.exit_code, 0) << config.dump() << answer.document.dump();
    for (const char* key : {"param_index", "buckets", "numel_unpadded", "numel", "rank_maps"}) {
      EXPECT_EQ(answer.document.contains(key), line.contains(key)) << config.dump() << key;
      if (!line.contains(key)) continue;
      EXPECT_EQ(answer.document[key].dump(), line[key].dump()) << config.dump() << key;
    }
    ++checked;
  }
  EXPECT_EQ(checked, 36);
}

TEST(Shards, DrawsAsManyElementsAsThereMayBe) {
  for (const char* sizes : {"1152921504606846976", "144115188075855900", "72057594037927937"}) {
    const test::RunResult result = test::run({"shards", "--param-sizes", sizes, "--data-parallel-size", "3"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("\n  [" + std::string(64, 'a') + "]\n"), std::string::npos) << result.out;
  }
}

}  // namespace
