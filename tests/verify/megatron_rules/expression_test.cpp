#include "verify/megatron_rules/expression.h"

#include <gtest/gtest.h>
#include <optional>
#include <string>

#include "verify/megatron_rules/rule_facts.h"
#include "verify/run_arguments/run_arguments.h"

namespace {

using verify::Expression;

verify::RuleFacts facts() {
  verify::RunArguments run;
  run.given = {{"tensor-model-parallel-size", {"4"}, 1},
               {"bf16", {}, 2},
               {"optimizer", {"lion"}, 3},
               {"lr", {"0.5"}, 4},
               {"seed", {"many"}, 5},
               {"spec", {"[a,", "'b']"}, 6}};
  return {verify::RunValues(run), {{"NCCL_ALGO", "Ring,Tree"}}, 24};
}

std::string truth(const std::string& text) {
  const std::optional<bool> truth = verify::truth_of(Expression(text).value(facts()));
  return truth ? *truth ? "true" : "false" : "unknown";
}

TEST(Expression, ConditionsHaveThreeValues) {
  EXPECT_EQ(truth("--bf16"), "true");
  EXPECT_EQ(truth("--fp16"), "false");
  EXPECT_EQ(truth("not --fp16 and --bf16"), "true");
  // A number that is absent, or none, is not known, and its comparison is neither true nor false.
  for (const char* unknown :
       {"--seed > 1", "not --seed > 1", "--min-lr = 0", "--min-lr != 0", "--bf16 and --seed > 1",
        "--fp16 or --seed > 1", "world % 0 = 0", "--lr * 2 = 1", "micro_batch_size = 1"})
    EXPECT_EQ(truth(unknown), "unknown") << unknown;
  EXPECT_EQ(truth("--fp16 and --seed > 1"), "false");
  EXPECT_EQ(truth("--bf16 or --seed > 1"), "true");
  EXPECT_EQ(truth("several(--bf16, --fp16, --lr)"), "true");
  EXPECT_EQ(truth("several(--bf16, --fp16, --seed > 1)"), "false");
}

TEST(Expression, OperatorsBindAsTheManualSays) {
  EXPECT_EQ(truth("--fp16 and --fp16 or --bf16"), "true");
  EXPECT_EQ(truth("--fp16 and (--fp16 or --bf16)"), "false");
  EXPECT_EQ(truth("not --fp16 or --bf16"), "true");
  EXPECT_EQ(truth("not (--fp16 or --bf16)"), "false");
  EXPECT_EQ(truth("1 + 2 * 3 = 7"), "true");
  EXPECT_EQ(truth("(1 + 2) * 3 = 9"), "true");
  EXPECT_EQ(truth("10 - 3 - 2 = 5"), "true");
  EXPECT_EQ(truth("7 / 2 = 3"), "true");
  EXPECT_EQ(truth("(0 - 7) / 2 = -4"), "true");
  EXPECT_EQ(truth("world % (tp * 5) != 0"), "true");
  EXPECT_EQ(truth("--min-lr ?? 0.25 < --lr"), "true");
  EXPECT_EQ(truth("up_to_multiple(5, tp) = 8 and up_to_multiple(8, tp) = 8"), "true");
  EXPECT_EQ(truth("9007199254740991 + 1 > 0"), "unknown");
}

TEST(Expression, TextsAndLists) {
  EXPECT_EQ(truth("--optimizer = 'lion'"), "true");
  EXPECT_EQ(truth("--ckpt-format = 'torch'"), "false");
  EXPECT_EQ(truth("--ckpt-format ?? 'torch' = 'torch'"), "true");
  EXPECT_EQ(truth("--ckpt-format != 'torch'"), "true");
  EXPECT_EQ(truth("--optimizer in ('adam', 'lion')"), "true");
  EXPECT_EQ(truth("not --optimizer in ('adam', 'sgd')"), "true");
  EXPECT_EQ(truth("--spec has 'b' and not --spec has 'c' and count(--spec) = 2"), "true");
  EXPECT_EQ(truth("--spec has ('c', 'a')"), "true");
  EXPECT_EQ(truth("--spec beyond ('a', 'c') and not --spec beyond ('a', 'b')"), "true");
  EXPECT_EQ(truth("$NCCL_ALGO and $NCCL_ALGO beyond ('Ring', '^NVLS') and not $NCCL_GRAPH_REGISTER"), "true");
  EXPECT_EQ(truth("$NCCL_ALGO contains 'ng,T'"), "true");
  EXPECT_EQ(truth("count(--fp16) = 0 and not --fp16 beyond ('a')"), "true");
  EXPECT_EQ(truth("is_number(--lr) and not is_number(--seed) and not is_number(--fp16)"), "true");
  EXPECT_EQ(truth("if(--bf16, 'a', 'b') = 'a' and if(--fp16, 'a', 'b') = 'b'"), "true");
  EXPECT_EQ(
      truth("position_embedding_type = 'learned_absolute' and not vpp and recompute_modules has 'core_attn'"),
      "true");
}

TEST(Expression, TextsHaveValues) {
  const auto filled = [](const char* text) { return verify::TextWithValues(text).filled(facts()); };
  EXPECT_EQ(filled("{world} over {tp * 2} ranks"), "24 over 8 ranks");
  EXPECT_EQ(filled("{told(--lr, --fp16, --bf16)}"), "--lr 0.5, no --fp16, --bf16");
  EXPECT_EQ(filled("{given(--lr, --fp16, --bf16)}"), "--lr 0.5, --bf16");
  EXPECT_EQ(filled("--seed {--seed + 1} || another --seed"), "another --seed");
  EXPECT_EQ(filled("--lr {--lr} || another --lr"), "--lr 0.5");
  EXPECT_EQ(filled("vpp {vpp}"), "vpp none");
  EXPECT_EQ(filled("tp {tp}{if(--fp16, '', ' (without fp16)')}"), "tp 4 (without fp16)");
}

TEST(Expression, WhatIsNoExpressionBreaksAnInvariant) {
  for (const char* text :
       {"", "--bf16 and", "(--bf16", "--bf16)", "'open", "1 +", "--a --b", "= 1", "count(--a", ", 1"})
    EXPECT_DEATH(Expression{text}, "CHECK") << text;
}

}  // namespace
