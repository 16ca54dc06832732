// Holds the options against what Megatron itself accepts, refuses and derives, line by line, before any work.
// The data are copies of outcomes of Megatron's own checks; tests/oracle/README.md explains how to read them.

#include "verify/megatron_rules/megatron_validation.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "tests/support/run.h"
#include "tests/verify/megatron_rules/broken_rows.h"
#include "verify/megatron_rules/rule_facts.h"
#include "verify/megatron_rules/rule_table.h"
#include "verify/requests/scenario.h"
#include "verify/requests/scenario_request.h"
#include "verify/vocabulary/command_line.h"

namespace {

using nlohmann::ordered_json;
using Codes = std::set<std::string>;

struct Judged {
  Codes refused;  // empty: accepted
  std::optional<verify::ScenarioRequest> request;
};

Judged judged(const std::vector<std::string>& words) {
  Judged judged;
  try {
    judged.request = verify::scenario_request(verify::scenario_of(verify::parse_command_line(words)));
  } catch (const sim::Error& error) {
    judged.refused.insert(error.refusal().code);
    for (const sim::Refusal& refusal : sim::further_refusals(error)) judged.refused.insert(refusal.code);
  }
  return judged;
}

std::vector<std::string> words_of(const ordered_json& line) {
  std::vector<std::string> words = {"replay", "--world-size", line["world"].dump()};
  for (const auto& [name, value] : line["flags"].items()) {
    words.push_back("--" + name);
    if (value.is_boolean()) continue;
    words.back() += "=" + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return words;
}

std::vector<ordered_json> lines() {
  std::ifstream stream(std::string(SHARDPROOF_TEST_DATA) + "/validation.jsonl");
  std::vector<ordered_json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(ordered_json::parse(line));
  return lines;
}

/// The codes under which the program refuses what Megatron refuses under another one; a code of Megatron's
/// that is neither here nor a code of the table is a rule about options that the program does not have.
const std::map<std::string, std::string>& own_codes() {
  static const std::map<std::string, std::string> codes = {
      {"account_layers_pp", "layers_pp_div"},
      {"account_layers_vpp", "layers_vpp_div"},
      {"aux_loss_list_length", ""},  // the lines do not say the coefficients
      {"eval_gbs_not_divisible", "microbatches_div"},
      {"gbs_not_divisible", "microbatches_div"},
      {"expert_world_not_divisible", "expert_div"},
      {"experts_not_positive", "size_range"},
      {"first_stage_vpp", "layers_vpp_div"},
      {"group_remainder", "microbatch_group_remainder"},
      {"group_size_range", "microbatch_group_size"},
      {"heads_tp", "attention_heads"},
      {"hidden_heads", "heads_div"},
      {"hier_cp_product", "hcp_prod"},
      {"instances_dp", "ndoi_dense"},
      {"instances_expert_dp", "ndoi_expert"},
      {"last_stage_vpp", "layers_vpp_div"},
      {"layers_pp", "layers_pp_div"},
      {"layers_pp_vpp", "layers_pp_div"},
      {"layout_embedding_once", "layout_ends"},
      {"layout_last", "layout_ends"},
      {"layout_letter", "layout_syntax"},
      {"layout_loss_once", "layout_ends"},
      {"layout_layers", "layout_layers"},
      {"layout_mtp_before_decoder", "layout_mtp"},
      {"layout_mtp_count", "layout_mtp"},
      {"layout_mtp_last_stage", "layout_mtp"},
      {"layout_mtp_split", "layout_mtp"},
      {"layout_stages_pp", "layout_stages"},
      {"layout_with_other_split", "placement_modes"},
      {"micro_batch_not_positive", "size_range"},
      {"middle_layers_pp", "layers_pp_div"},
      {"middle_layers_vpp", "layers_vpp_div"},
      {"middle_stages_mismatch", "uneven_middle"},
      {"no_microbatch", "size_range"},
      {"order_expert_dp", "not_pp_last"},
      {"query_groups_tp", "attention_heads"},
      {"seq_cp", "sequence_cp_div"},
      {"shared_expert_size", "size_range"},
      {"split_layers_pp", "layers_pp_div"},
      {"split_layers_vpp", "layers_vpp_div"},
      {"uneven_with_account", "placement_modes"},
      {"vpp_needs_pp2", "vpp_needs_pp"},
      {"world_not_divisible", "dense_div"},
  };
  return codes;
}

/// Returns the program's code for a code of Megatron's; empty where the options of the rule are not known.
std::string own_code(const std::string& code) {
  const auto found = own_codes().find(code);
  if (found != own_codes().end()) return found->second;
  const bool is_known = std::ranges::any_of(verify::megatron_rules(), [&](const verify::MegatronRule& rule) {
    return rule.is_of_options && !rule.is("bare") && rule.code == code;  // the lines do not say those options
  });
  return is_known ? code : "";
}

/// What the program refuses although Megatron's checks let it pass, with the reason.
const std::map<std::string, std::string>& refused_on_purpose() {
  static const std::map<std::string, std::string> reasons = {
      {"bad_choice", "positions of other kinds are not simulated"},
      {"size_range", "a sequence of no tokens is no training"},
      {"groups_div", "attention repeats each key for as many heads, and fails in the first step"},
      {"attention_heads",
       "--num-query-groups counts without --group-query-attention, where Megatron drops it"},
      {"topk_above_experts", "the router fails in the first step"},
  };
  return reasons;
}

std::string text_of(const Codes& codes) {
  std::string text;
  for (const std::string& code : codes) text += " " + code;
  return text;
}

TEST(MegatronValidation, RefusesWhatMegatronRefuses) {
  int checked = 0, unknown = 0;
  for (const ordered_json& line : lines()) {
    if (line["outcome"] != "refused") continue;
    std::vector<std::string> expected = {line["code"].get<std::string>()};
    for (const auto& code : line["also"]) expected.push_back(code.get<std::string>());
    const Judged own = judged(words_of(line));
    for (const std::string& code : expected) {
      const std::string wanted = own_code(code);
      ++(wanted.empty() ? unknown : checked);
      if (wanted.empty()) continue;
      EXPECT_TRUE(own.refused.contains(wanted)) << line["id"] << " " << code << ":" << text_of(own.refused);
    }
  }
  EXPECT_EQ(checked, 94);
  EXPECT_EQ(unknown, 159);
}

TEST(MegatronValidation, AcceptsWhatMegatronAccepts) {
  int checked = 0, on_purpose = 0;
  for (const ordered_json& line : lines()) {
    if (line["outcome"] != "accepted") continue;
    const Judged own = judged(words_of(line));
    ++(own.refused.empty() ? checked : on_purpose);
    for (const std::string& code : own.refused)
      EXPECT_TRUE(refused_on_purpose().contains(code)) << line["id"] << " " << code << line["flags"].dump();
  }
  EXPECT_EQ(checked, 378);
  EXPECT_EQ(on_purpose, 10);
}

ordered_json layers_of(const sim::LayerPlacement& placement) {
  ordered_json ranks = ordered_json::array();
  for (const auto& stages : placement.stages) {
    ordered_json chunks = ordered_json::array();
    for (const sim::StageLayers& stage : stages) chunks.push_back(stage.count);
    ranks.push_back(chunks);
  }
  return ranks;
}

TEST(MegatronValidation, DerivesWhatMegatronDerives) {
  int checked = 0;
  for (const ordered_json& line : lines()) {
    const Judged own = line["outcome"] == "accepted" ? judged(words_of(line)) : Judged();
    if (!own.request) continue;
    ++checked;
    const ordered_json& theirs = line["effective"];
    const auto expect = [&](const char* name, const ordered_json& value) {
      EXPECT_EQ(value.dump(), theirs[name].dump()) << line["id"] << " " << name << line["flags"].dump();
    };
    const verify::ScenarioRequest& request = *own.request;
    expect("dp", request.layout.dp);
    expect("etp", request.layout.etp);
    expect("edp", request.layout.edp);
    const auto& chunks = request.pipeline.virtual_pipeline_model_parallel_size;
    expect("vpp", chunks ? ordered_json(*chunks) : ordered_json());
    if (request.placement) {
      expect("num_layers", request.placement->num_layers);
      expect("layers_per_stage", layers_of(*request.placement));
    }
    if (request.batch.global_batch_size)
      expect("num_microbatches", verify::microbatches_of_batch(request.batch, request.layout.dp));
    if (!request.model.has_shape) continue;
    expect("ffn_hidden_size", request.model.config.ffn_hidden_size);
    if (theirs.contains("kv_channels")) expect("kv_channels", request.model.config.head_size());
    if (line["flags"].contains("num-query-groups") && !line["flags"].contains("group-query-attention"))
      continue;
    expect("num_query_groups", request.model.config.num_query_groups);
  }
  EXPECT_EQ(checked, 378);
}

constexpr const char* kDense =
    "replay --world-size 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers 4 "
    "--hidden-size 64 --num-attention-heads 8 --vocab-size 100 --seq-length 16 --global-batch-size 8";
constexpr const char* kExperts =
    "replay --world-size 8 --tensor-model-parallel-size 2 --expert-model-parallel-size 2 "
    "--expert-tensor-parallel-size 2 --num-experts 4 --disable-bias-linear --sequence-parallel "
    "--moe-token-dispatcher-type alltoall --num-layers 4 --hidden-size 64 --num-attention-heads 8 "
    "--vocab-size 100 --seq-length 16 --global-batch-size 8";

std::vector<std::string> split(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// Returns the words of `base`, where the options of `more` come in place of its own.
std::vector<std::string> with(const char* base, const std::string& more) {
  std::vector<std::string> words = split(base);
  for (const std::string& word : split(more)) {
    const auto same = std::find(words.begin(), words.end(), word.substr(0, word.find('=')));
    if (same != words.end() && word.starts_with("--")) {
      const bool has_value = same + 1 != words.end() && !(same + 1)->starts_with("--");
      words.erase(same, same + (has_value ? 2 : 1));
    }
    words.push_back(word);
  }
  return words;
}

TEST(MegatronValidation, EveryRuleIsBrokenByOneChangeOfALayoutThatHolds) {
  const std::map<std::string, const char*> bases = {
      {"dense", kDense}, {"experts", kExperts}, {"layout", "replay --world-size 8"}};
  for (const auto& [name, base] : bases) EXPECT_EQ(text_of(judged(split(base)).refused), "") << name;
  std::set<std::size_t> met;
  for (const test::Broken& one : test::broken_rows("broken_options.tsv")) {
    const std::vector<std::string> words = with(bases.at(one.base), one.words);
    EXPECT_EQ(text_of(judged(words).refused), text_of(one.codes)) << one.words;
    met.merge(test::broken_rules(verify::RuleFacts(verify::parse_command_line(words).settings)));
  }
  EXPECT_EQ(test::rules_but(met, &verify::MegatronRule::is_of_options), "");
}

TEST(MegatronValidation, JudgesOnlyWhatIsSaid) {
  // A layout alone says nothing of its model: an expert grid has experts, whose number is not known.
  EXPECT_EQ(text_of(judged(split("replay --world-size 8 --expert-model-parallel-size 8")).refused), "");
  EXPECT_EQ(text_of(judged(split("replay --world-size 8 --expert-model-parallel-size 2 "
                                 "--tensor-model-parallel-size 2"))
                        .refused),
            " moe_tp_needs_sp");
  // The legacy rule book has the rules about sizes alone, and clamps tp to the world.
  EXPECT_EQ(text_of(judged(split("replay --rules legacy --world-size 2 --tensor-model-parallel-size 4 "
                                 "--num-attention-heads 2 --recompute-granularity full"))
                        .refused),
            "");
  // An evaluation does not train.
  EXPECT_EQ(text_of(judged(with(kExperts, "--sequence-parallel=false --forward-only")).refused), "");
}

TEST(MegatronValidation, SaysWhatIsNotSimulated) {
  const auto names = [](const Judged& judged) {
    Codes met;
    for (const sim::Warning& warning : judged.request->warnings) met.insert(warning.name);
    return text_of(met);
  };
  EXPECT_EQ(names(judged(split(kDense))), "");
  EXPECT_EQ(names(judged(split(kExperts))), "");
  EXPECT_EQ(names(judged(with(kDense, "--recompute-granularity selective"))), " recompute_not_simulated");
  EXPECT_EQ(names(judged(with(kDense, "--recompute-num-layers 1"))), " recompute_ignored");
  EXPECT_EQ(names(judged(with(kDense, "--microbatch-group-size-per-virtual-pipeline-stage 2"))),
            " microbatch_group_ignored");
  EXPECT_EQ(names(judged(with(kDense, "--num-query-groups 2"))), " query_groups_ignored");
  EXPECT_EQ(names(judged(with(kDense, "--num-query-groups 2 --group-query-attention"))), "");
}

TEST(MegatronValidation, SaysWhereLossesOfExpertsAreNotWhatTheirNamesSay) {
  const auto warnings = [](const char* words) {
    const Judged own = judged(with(kExperts, words));
    std::string text = text_of(own.refused);
    if (!own.request) return text;
    for (const sim::Warning& warning : own.request->warnings)
      if (warning.name != "experts_not_simulated") text += warning.name + ": " + warning.message + "\n";
    return text;
  };
  const std::string global = "--moe-router-load-balancing-type global_aux_loss --moe-aux-loss-coeff ";
  EXPECT_EQ(
      warnings((global + "0.25").c_str()),
      "global_aux_loss_over_dp: Megatron divides the gradient of global_aux_loss by dp once more than its "
      "coefficient says: with dp 4 the coefficient acts as 1/4 of what is given\n");
  EXPECT_EQ(warnings((global + "0").c_str()), "") << "no loss";
  EXPECT_EQ(warnings((global + "0.25 --world-size 4 --expert-tensor-parallel-size 2 "
                               "--context-parallel-size 2 --seq-length 16")
                         .c_str()),
            "")
      << "one replica";
  EXPECT_EQ(warnings("--moe-aux-loss-coeff 0.25"), "");
  EXPECT_EQ(
      warnings("--moe-aux-loss-coeff 0.25 --moe-router-group-topk 2 --moe-router-num-groups 2 "
               "--moe-router-enable-expert-bias --moe-router-score-function sigmoid"),
      "aux_loss_counts: the auxiliary loss counts the experts of a plain top-k, and not those that tokens "
      "go to with --moe-router-group-topk and --moe-router-enable-expert-bias\n");
  EXPECT_EQ(warnings("--moe-router-enable-expert-bias --moe-router-score-function sigmoid"), "");
  for (const char* loss : {"--moe-aux-loss-coeff 0.25", "--moe-z-loss-coeff 0.25"}) {
    EXPECT_EQ(
        warnings((std::string("--calculate-per-token-loss ") + loss).c_str()),
        "per_token_aux_loss: with --calculate-per-token-loss the auxiliary losses are exact only if all 2 "
        "ranks of tp-cp have as many valid tokens\n");
  }
  EXPECT_EQ(warnings("--calculate-per-token-loss"), "");
  EXPECT_EQ(warnings("--not-modelled sinks"), "not_modelled: the scenario leaves out: sinks\n");
}

TEST(MegatronValidation, OtherCommandsTellAllRefusalsTogether) {
  const test::RunResult layers = test::run(
      "layers --world-size 9 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers 7 "
      "--num-layers-per-virtual-pipeline-stage 1 --num-virtual-stages-per-pipeline-rank 2 --format json");
  EXPECT_EQ(layers.exit_code, 2);
  const ordered_json document = ordered_json::parse(layers.out);
  EXPECT_EQ(document["error"]["code"], "dense_div");
  ASSERT_EQ(document["further_errors"].size(), 2U) << document.dump();
  EXPECT_EQ(document["further_errors"][0]["code"], "vpp_more_than_one_flag");
  EXPECT_EQ(document["further_errors"][1]["code"], "layers_pp_div");
  for (const char* code : {"[dense_div]", "[vpp_more_than_one_flag]", "[layers_pp_div]"})
    EXPECT_NE(layers.err.find(code), std::string::npos) << layers.err;
  const test::RunResult groups =
      test::run("groups --world-size 12 --tensor-model-parallel-size 5 --expert-model-parallel-size 7");
  EXPECT_EQ(groups.exit_code, 2);
  for (const char* code : {"[dense_div]", "[expert_div]"})
    EXPECT_NE(groups.err.find(code), std::string::npos) << groups.err;
  const test::RunResult stages = test::run(
      "layers --num-layers 8 --virtual-pipeline-model-parallel-size 2 --account-for-loss-in-pipeline-split "
      "--decoder-first-pipeline-num-layers 1");
  for (const char* code : {"[placement_modes]", "[vpp_needs_pp]"})
    EXPECT_NE(stages.err.find(code), std::string::npos) << stages.err;
  // A rank of 4 has no whole number of 2 heads: the command shards is held to the rules that it can read.
  const test::RunResult shards = test::run(
      "shards --num-layers 2 --hidden-size 8 --num-attention-heads 2 --vocab-size 64 --seq-length 16 "
      "--ffn-hidden-size 6 --tensor-model-parallel-size 4");
  for (const char* code : {"[attention_heads]", "[ffn_tp_div]"})
    EXPECT_NE(shards.err.find(code), std::string::npos) << shards.err;
  const test::RunResult schedule = test::run(
      "schedule --pipeline-model-parallel-size 2 --num-microbatches 4 --overlap-moe-expert-parallel-comm");
  EXPECT_NE(schedule.err.find("[overlap_needs_vpp]"), std::string::npos) << schedule.err;
}

TEST(MegatronValidation, ReplayTellsAllRefusalsAndExpectsAnyOfThem) {
  const std::string words =
      "--world-size 8 --tensor-model-parallel-size 2 --num-attention-heads 3 --ffn-hidden-size 5";
  const test::RunResult json = test::run("replay --format json " + words);
  EXPECT_EQ(json.exit_code, 2);
  const ordered_json report = ordered_json::parse(json.out)["scenarios"][0];
  EXPECT_EQ(report["error"]["code"], "attention_heads");
  EXPECT_EQ(report["further_errors"][0]["code"], "ffn_tp_div");
  EXPECT_TRUE(report["checks"].empty());
  const test::RunResult text = test::run("replay " + words);
  EXPECT_NE(text.out.find("attention_heads"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("ffn_tp_div"), std::string::npos) << text.out;
  for (const char* code : {"attention_heads", "ffn_tp_div"}) {
    const test::RunResult expected =
        test::run("replay --expect refused --expect-refusal " + std::string(code) + " " + words);
    EXPECT_EQ(expected.exit_code, 0) << expected.out;
  }
  EXPECT_EQ(test::run("replay --expect refused --expect-refusal heads_div " + words).exit_code, 1);
}

TEST(MegatronValidation, WrongRanksAreSuspectAndNotVerified) {
  const std::string grid = "--world-size 8 --expert-tensor-parallel-size 2 --expert-model-parallel-size 2 ";
  const test::TemporaryFile junit("suspect.xml", "");
  const test::RunResult text =
      test::run("replay --order ep-tp-cp-dp-pp --junit '" + junit.path() + "' " + grid);
  EXPECT_EQ(text.exit_code, 5);
  EXPECT_NE(text.out.find("SUSPECT"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("\nsuspect: 1 scenario"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("0 refused, 1 suspect, 1 warning"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("\nverified"), std::string::npos) << text.out;
  std::ifstream file(junit.path());
  const std::string xml{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(xml.find("failures=\"1\""), std::string::npos) << xml;
  EXPECT_NE(xml.find("warning dispatcher_order"), std::string::npos) << xml;
  EXPECT_EQ(test::run("replay --expect suspect --order ep-tp-cp-dp-pp " + grid).exit_code, 0);
  const test::RunResult unsuspected = test::run("replay --expect suspect " + grid);
  EXPECT_EQ(unsuspected.exit_code, 1);
  EXPECT_NE(unsuspected.out.find("FAILED  suspect"), std::string::npos) << unsuspected.out;
  // The trap is that of the all-to-all dispatcher.
  EXPECT_EQ(
      test::run("replay --order ep-tp-cp-dp-pp --moe-token-dispatcher-type allgather " + grid).exit_code, 0);
  EXPECT_EQ(test::run("replay " + grid).exit_code, 0);
  // Optimizer instances that cut through their groups.
  const test::RunResult instances = test::run(
      "replay --world-size 8 --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1 "
      "--num-distributed-optimizer-instances 2 --order cp-dp-tp-ep-pp");
  EXPECT_EQ(instances.exit_code, 5) << instances.out;
}

}  // namespace
