#include <algorithm>
#include <fmt/format.h>

#include "verify/megatron_rules/run_rule.h"
#include "verify/vocabulary/batch_schedule.h"

namespace verify {

namespace {

constexpr const char* kSchedule = "step-batch-size-schedule";
constexpr const char* kDecrease = "decrease-batch-size-if-needed";
constexpr const char* kEvalBatch = "eval-global-batch-size";
constexpr const char* kEvalMicro = "eval-micro-batch-size";

BatchSchedule schedule_of(const JudgedRun& r) {
  return parse_batch_schedule(r.text(kSchedule), r.derived("seq_length"));
}

JudgedRun::Number eval_micro_batch(const JudgedRun& r) {
  return r.has(kEvalMicro) ? r.number(kEvalMicro) : r.number("micro-batch-size");
}

/// Whether the batch of an evaluation can be another one than the global batch, whose rule is that of
/// microbatches_of_batch (schedule_request.h).
bool has_eval_batch(const JudgedRun& r) {
  return r.has(kEvalBatch) || r.has(kEvalMicro) || r.flag(kDecrease) || r.shares_weights();
}

bool is_eval_batch_undivided(const JudgedRun& r) {
  const auto batch = r.has(kEvalBatch) ? r.number(kEvalBatch) : r.derived("global_batch_size");
  return has_eval_batch(r) &&
         is_undivided(batch, product_of({eval_micro_batch(r), r.derived("dp"), r.derived("gtp")}));
}

/// A batch of an evaluation that holds, from the one that does not hold on.
std::string eval_batch_to_try(const JudgedRun& r) {
  const auto batch = r.has(kEvalBatch) ? r.number(kEvalBatch) : r.derived("global_batch_size");
  const auto held =
      multiple_from(batch, product_of({eval_micro_batch(r), r.derived("dp"), r.derived("gtp")}));
  return held ? fmt::format("--{} {}", kEvalBatch, *held) : "";
}

bool is_batch_undivided(const JudgedRun& r) {
  return r.shares_weights() && !r.has(kSchedule) && !r.flag(kDecrease) &&
         is_undivided(r.derived("global_batch_size"),
                      product_of({r.number("micro-batch-size"), r.derived("dp"), r.derived("gtp")}));
}

bool is_order_broken(const JudgedRun& r) {
  const std::vector<BatchStep> steps = schedule_of(r).steps;
  return std::adjacent_find(steps.begin(), steps.end(), [](const BatchStep& a, const BatchStep& b) {
           return a.samples >= b.samples;
         }) != steps.end();
}

}  // namespace

/// The rules about the batch, its schedule, and the batch of an evaluation.
std::vector<RunRule> run_batch_rules() {
  return {
      {"micro_batch_missing",
       {"micro-batch-size"},
       [](const JudgedRun& r) { return !r.has("micro-batch-size"); },
       "Megatron has no default for the sequences of a microbatch",
       "--micro-batch-size 1"},
      {"rampup_values",
       {"rampup-batch-size"},
       [](const JudgedRun& r) {
         return r.has("rampup-batch-size") && r.list("rampup-batch-size").size() != 3;
       },
       "a batch that grows has a first size, an increment and a number of samples",
       "--rampup-batch-size 32 32 1000000"},
      {"schedule_and_gbs",
       {kSchedule, "global-batch-size"},
       [](const JudgedRun& r) { return r.has(kSchedule) && r.has("global-batch-size"); },
       "the schedule of the batch gives its size",
       "leave --global-batch-size out"},
      {"schedule_decrease",
       {kSchedule, kDecrease},
       [](const JudgedRun& r) { return r.has(kSchedule) && r.flag(kDecrease); },
       "a batch that follows a schedule is not decreased",
       "leave one of them out"},
      {"schedule_entry",
       {kSchedule},
       [](const JudgedRun& r) {
         return r.has(kSchedule) && (schedule_of(r).steps.empty() || !schedule_of(r).unreadable.empty());
       },
       "an entry of the schedule is a threshold and a size, with a colon between them",
       "--step-batch-size-schedule '0:16 1B:32'"},
      {"schedule_first",
       {kSchedule},
       [](const JudgedRun& r) {
         const std::vector<BatchStep> steps = schedule_of(r).steps;
         return !steps.empty() && steps.front().samples != 0;
       },
       "the schedule has a size for the first step, at the threshold 0",
       "--step-batch-size-schedule '0:16 1B:32'"},
      {"schedule_order",
       {kSchedule, "seq-length"},
       is_order_broken,
       "the thresholds of a schedule differ, in samples: tokens over the sequence length",
       "thresholds that lie further apart"},
      {"schedule_size",
       {kSchedule},
       [](const JudgedRun& r) {
         const std::vector<BatchStep> steps = schedule_of(r).steps;
         return std::any_of(steps.begin(), steps.end(), [](const BatchStep& one) { return one.size < 1; });
       },
       "each size of the schedule is above 0",
       "--step-batch-size-schedule '0:16 1B:32'"},
      {"eval_gbs_not_divisible",
       {kEvalBatch, kEvalMicro},
       is_eval_batch_undivided,
       "the batch of an evaluation, which is the global batch unless given, is a multiple of its "
       "microbatch * dp",
       "--eval-global-batch-size of such a multiple",
       {"global_batch_size", "micro_batch_size", "dp", "gtp"},
       eval_batch_to_try},
      {"zero_division",
       {kEvalMicro},
       [](const JudgedRun& r) { return r.number(kEvalMicro) == std::int64_t{0}; },
       "Megatron divides by this number",
       "--eval-micro-batch-size 1"},
      {"gbs_not_divisible",
       {"global-batch-size", "micro-batch-size"},
       is_batch_undivided,
       "the global batch is a multiple of the microbatch * dp * the ranks that share weights beyond tp",
       "another --global-batch-size",
       {"global_batch_size", "dp", "gtp"}},
      {"no_microbatch",
       {"global-batch-size", kDecrease},
       [](const JudgedRun& r) {
         const auto microbatches = r.derived("num_microbatches");
         return r.flag(kDecrease) && microbatches && *microbatches < 1;
       },
       "a step has at least one microbatch, also of a batch that is decreased",
       "a larger --global-batch-size",
       {"micro_batch_size", "dp"}},
      {"rl_packing_micro_batch",
       {"rl-use-sequence-packing", "micro-batch-size"},
       [](const JudgedRun& r) {
         return r.flag("perform-rl-step") && r.flag("rl-use-sequence-packing") &&
                r.number("micro-batch-size", 1) != 1;
       },
       "packed sequences come one in a microbatch",
       "--micro-batch-size 1"},
  };
}

}  // namespace verify
