// Holds the calls of a program against the closed form of what its arguments ask for: the calls of that form are
// all found, whatever the functions are named, and others are not.
#include "verify/run/live_calls.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>

#include "tests/verify/run/guest_test.h"
#include "verify/full_size/step_totals.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/requests/scenario_request.h"
#include "verify/run_arguments/run_document.h"

namespace {

using namespace verify;
using test::has;

using Arguments = std::map<std::string, std::string>;

/// The arguments of a small model on 4 ranks, as Megatron holds them.
Arguments small() {
  return {{"num_layers", "4"},
          {"hidden_size", "32"},
          {"num_attention_heads", "4"},
          {"seq_length", "16"},
          {"max_position_embeddings", "16"},
          {"micro_batch_size", "1"},
          {"global_batch_size", "4"},
          {"vocab_size", "128"},
          {"padded_vocab_size", "128"},
          {"make_vocab_size_divisible_by", "64"},
          {"tensor_model_parallel_size", "2"},
          {"use_distributed_optimizer", "True"},
          {"train_iters", "3"},
          {"iteration", "0"},
          {"curr_iteration", "2"},
          {"eval_iters", "0"}};
}

std::string told_of(const Arguments& arguments) {
  Json document = {{"shardproof_run", 1}, {"kind", "log"}, {"name", "the program"}};
  document["arguments"] = Json::array();
  for (const auto& [name, value] : arguments)
    document["arguments"].push_back({{"name", name}, {"values", std::vector<std::string>{value}}});
  document["world"] = {{"ranks", 4}, {"from", "a test"}};
  return document.dump();
}

/// Returns the calls that the arguments ask for, as a program makes them that describes its groups as Megatron
/// does.
std::vector<sim::LedgerRow> ledger_of(const Arguments& arguments) {
  static const std::map<std::string, std::string> kDescriptions = {
      {"tp", "TENSOR_MODEL_PARALLEL_GROUP"},
      {"dp-cp", "DATA_PARALLEL_GROUP_WITH_CP"},
      {"mp", "MODEL_PARALLEL_GROUP"},
      {"intra-dist-opt", "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP"}};
  const RunOfFile run = run_of(read_run_document(told_of(arguments)));
  const ScenarioRequest request = scenario_request({.name = "a test", .settings = run.settings, .run = run});
  std::vector<sim::LedgerRow> ledger;
  for (const auto& [key, total] : expected_totals(request, 3)) {
    sim::LedgerRow row;
    row.kind = kDescriptions.contains(key.kind) ? kDescriptions.at(key.kind) : key.kind;
    row.site = "its_" + key.site;
    row.operation = key.operation;
    row.dtype = key.dtype;
    row.calls = total.calls;
    row.elements = total.elements;
    ledger.push_back(row);
  }
  return ledger;
}

sim::RunReport report_of(std::vector<sim::LedgerRow> ledger) {
  sim::RunReport report;
  report.ledger = std::move(ledger);
  return report;
}

TEST(LiveCalls, AProgramThatTellsNothingIsNotJudged) { EXPECT_FALSE(judged_calls("", {})); }

TEST(LiveCalls, ThoseThatTheArgumentsAskForAreEqual) {
  const auto judged = judged_calls(told_of(small()), report_of(ledger_of(small())));
  ASSERT_TRUE(judged && judged->layout);
  EXPECT_EQ(judged->layout->tp, 2);
  EXPECT_EQ(judged->steps, 3);
  EXPECT_TRUE(judged->is_equal()) << judged_calls_text(*judged);
  EXPECT_GE(judged->rows.size(), 4U);
  EXPECT_TRUE(has(judged_calls_text(*judged), "carry as many elements as 3 steps with these arguments need"))
      << judged_calls_text(*judged);
}

TEST(LiveCalls, OtherFunctionsBesideAreNoDifference) {
  std::vector<sim::LedgerRow> ledger = ledger_of(small());
  const auto before = judged_calls(told_of(small()), report_of(ledger));
  for (const char* site : {"timers", "logs"}) {
    ledger.push_back(ledger.back());
    ledger.back().site = site;
    ledger.back().elements = 7;
  }
  const auto judged = judged_calls(told_of(small()), report_of(ledger));
  EXPECT_TRUE(judged->is_equal()) << judged_calls_text(*judged);
  EXPECT_EQ(judged->beside, before->beside + 2);
  EXPECT_EQ(judged->elements_beside, before->elements_beside + 14);
}

RC_GTEST_PROP(LiveCalls, AFunctionThatCarriesMoreOrLessIsNamed, ()) {
  std::vector<sim::LedgerRow> ledger = ledger_of(small());
  std::vector<std::size_t> judged_rows;
  const auto healthy = judged_calls(told_of(small()), report_of(ledger));
  for (std::size_t i = 0; i < ledger.size(); ++i)
    for (const CallsRow& row : healthy->rows)
      for (const sim::LedgerRow& made : row.made)
        if (made.site == ledger[i].site && made.kind == ledger[i].kind) judged_rows.push_back(i);
  sim::LedgerRow& changed = ledger[*rc::gen::elementOf(judged_rows)];
  const auto more = *rc::gen::distinctFrom(rc::gen::inRange<std::int64_t>(-changed.elements, 1000), 0);
  changed.elements += more;
  const auto judged = judged_calls(told_of(small()), report_of(ledger));
  RC_ASSERT(!judged->is_equal());
  RC_ASSERT(has(judged_calls_text(*judged), "warning " + std::string(sim::name_of(changed.operation))));
}

TEST(LiveCalls, AMultipleOfWhatIsAskedForIsSaid) {
  std::vector<sim::LedgerRow> ledger = ledger_of(small());
  for (sim::LedgerRow& row : ledger)
    if (row.site == "its_optimizer.gather_params") row.elements *= 2;
  const auto judged = judged_calls(told_of(small()), report_of(ledger));
  const std::string text = judged_calls_text(*judged);
  EXPECT_TRUE(has(text, "warning all_gather of f32 over dp-cp needs ")) << text;
  EXPECT_TRUE(has(text, "2 times as many\n")) << text;
}

TEST(LiveCalls, StepsAreThoseSinceTheCheckpoint) {
  Arguments arguments = small();
  arguments["iteration"] = "5";
  arguments["curr_iteration"] = "7";
  EXPECT_TRUE(judged_calls(told_of(arguments), report_of(ledger_of(small())))->is_equal());
  arguments["curr_iteration"] = "8";
  EXPECT_FALSE(judged_calls(told_of(arguments), report_of(ledger_of(small())))->is_equal());
}

TEST(LiveCalls, WhatHasNoClosedFormIsSaid) {
  const auto unknown = [](const std::string& name, const std::string& value) {
    Arguments arguments = small();
    arguments[name] = value;
    return judged_calls(told_of(arguments), report_of(ledger_of(small())))->unknown;
  };
  EXPECT_EQ(unknown("train_iters", "3"), "");
  EXPECT_EQ(unknown("curr_iteration", "-1"), "the program does not report its number of steps");
  EXPECT_TRUE(has(unknown("fp16", "True"), "--fp16, which scales losses")) << unknown("fp16", "True");
  EXPECT_EQ(unknown("fp32_residual_connection", "True"),
            "the closed form does not have --fp32-residual-connection");
  Arguments evaluates = small();
  evaluates["eval_iters"] = "2";
  EXPECT_EQ(judged_calls(told_of(evaluates), {})->unknown, "");
  evaluates["do_valid"] = "True";
  EXPECT_TRUE(has(judged_calls(told_of(evaluates), {})->unknown, "--eval-iters"));
}

TEST(LiveCalls, OfABrokenRunTheLayoutAloneIsKnown) {
  sim::RunReport report = report_of(ledger_of(small()));
  report.findings.push_back({.code = "guest_raised"});
  const auto judged = judged_calls(told_of(small()), report);
  EXPECT_TRUE(judged->layout);
  EXPECT_EQ(judged->unknown, "the run is broken");
}

TEST(LiveCalls, WhatIsNoDocumentIsSaid) {
  for (const char* told :
       {"{", "[]", R"({"shardproof_run": 2})", R"({"shardproof_run": 1, "kind": "log"})"}) {
    const auto judged = judged_calls(told, {});
    ASSERT_TRUE(judged) << told;
    EXPECT_FALSE(judged->is_equal()) << told;
    EXPECT_NE(judged->unknown, "") << told;
  }
}

}  // namespace
