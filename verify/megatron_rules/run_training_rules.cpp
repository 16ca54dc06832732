#include <fmt/format.h>

#include "verify/megatron_rules/run_rule.h"

namespace verify {

namespace {

bool trains_iterations(const JudgedRun& r) {
  return !r.flag("skip-train") && r.number("train-iters", 0) != 0;
}
bool trains_samples(const JudgedRun& r) { return !r.flag("skip-train") && r.number("train-samples", 0) != 0; }

/// Whether the rates of a weight decay are given where they are constant, or not given where they change.
bool is_decay_range_broken(const JudgedRun& r) {
  const bool has_start = r.has("start-weight-decay"), has_end = r.has("end-weight-decay");
  return r.text("weight-decay-incr-style", "constant") == "constant" ? has_start || has_end
                                                                     : !has_start || !has_end;
}

int data_sources(const JudgedRun& r) {
  const bool is_split = r.has("train-data-path") || r.has("valid-data-path") || r.has("test-data-path");
  return (r.flag("mock-data") ? 1 : 0) + (r.has("data-path") ? 1 : 0) + (is_split ? 1 : 0);
}

}  // namespace

/// The rules about the length of the training, its learning rate, its data and its checkpoints.
std::vector<RunRule> run_training_rules() {
  constexpr const char* kOneKind =
      "the length of a training and its learning rate count iterations, or samples";
  return {
      {"iters_and_samples",
       {"train-iters", "train-samples"},
       [](const JudgedRun& r) { return trains_iterations(r) && r.has("train-samples"); },
       kOneKind,
       "one of them"},
      {"iters_with_decay_samples",
       {"lr-decay-samples", "train-iters"},
       [](const JudgedRun& r) { return trains_iterations(r) && r.has("lr-decay-samples"); },
       kOneKind,
       "--lr-decay-iters"},
      {"iters_with_warmup_samples",
       {"lr-warmup-samples", "train-iters"},
       [](const JudgedRun& r) { return trains_iterations(r) && r.number("lr-warmup-samples", 0) != 0; },
       kOneKind,
       "--lr-warmup-iters"},
      {"warmup_fraction_and_iters",
       {"lr-warmup-fraction", "lr-warmup-iters"},
       [](const JudgedRun& r) {
         return trains_iterations(r) && r.has("lr-warmup-fraction") && r.number("lr-warmup-iters", 0) != 0;
       },
       "a warmup is a fraction or a number",
       "one of them"},
      {"samples_with_decay_iters",
       {"lr-decay-iters", "train-samples"},
       [](const JudgedRun& r) { return trains_samples(r) && r.has("lr-decay-iters"); },
       kOneKind,
       "--lr-decay-samples in its place"},
      {"samples_with_warmup_iters",
       {"lr-warmup-iters", "train-samples"},
       [](const JudgedRun& r) { return trains_samples(r) && r.number("lr-warmup-iters", 0) != 0; },
       kOneKind,
       "--lr-warmup-samples in its place"},
      {"warmup_fraction_and_samples",
       {"lr-warmup-fraction", "lr-warmup-samples"},
       [](const JudgedRun& r) {
         return trains_samples(r) && r.has("lr-warmup-fraction") && r.number("lr-warmup-samples", 0) != 0;
       },
       "a warmup is a fraction or a number",
       "one of them"},
      {"min_lr_above_lr",
       {"min-lr", "lr"},
       [](const JudgedRun& r) {
         const auto rate = r.decimal("lr");
         return rate && r.decimal("min-lr").value_or(0) > *rate;
       },
       "the smallest learning rate is no larger than the learning rate",
       "a smaller --min-lr"},
      {"save_without_interval",
       {"save", "save-interval"},
       [](const JudgedRun& r) { return r.has("save") && r.number("save-interval", 0) <= 0; },
       "checkpoints are saved at an interval",
       "--save-interval 1000"},
      {"save_retain_interval",
       {"save-retain-interval", "save-interval"},
       [](const JudgedRun& r) {
         const auto kept = r.number("save-retain-interval"), saved = r.number("save-interval");
         return r.has("save") && kept && (*kept <= 0 || (saved && *saved > 0 && *kept % *saved != 0));
       },
       "of the checkpoints that are saved, every N-th is kept: the interval is a multiple of --save-interval",
       "a multiple of --save-interval",
       {},
       [](const JudgedRun& r) {
         const auto kept = multiple_from(r.number("save-retain-interval"), r.number("save-interval"));
         return kept ? fmt::format("--save-retain-interval {}", *kept) : std::string();
       }},
      {"save_params_gather",
       {"save-params-interval", "overlap-param-gather", "save"},
       [](const JudgedRun& r) {
         return r.has("save") && r.has("save-params-interval") && r.derived_flag("overlap_param_gather");
       },
       "parameters are saved apart where their gathering does not overlap",
       "leave --save-params-interval out"},
      {"log_memory_interval",
       {"log-memory-interval", "log-interval"},
       [](const JudgedRun& r) {
         return is_undivided(r.number("log-memory-interval"), r.number("log-interval", 100));
       },
       "memory is logged at a multiple of the interval of the log, which is 100 unless given",
       "a multiple of --log-interval",
       {},
       [](const JudgedRun& r) {
         const auto logged = multiple_from(r.number("log-memory-interval"), r.number("log-interval", 100));
         return logged ? fmt::format("--log-memory-interval {}", *logged) : std::string();
       }},
      {"override_iteration_finetune",
       {"override-ckpt-iteration", "finetune"},
       [](const JudgedRun& r) { return r.has("override-ckpt-iteration") && r.flag("finetune"); },
       "a finetuning begins at iteration 0",
       "one of them"},
      {"replication_jump",
       {"replication", "replication-jump", "non-persistent-ckpt-type"},
       [](const JudgedRun& r) {
         return r.flag("replication") &&
                (!r.has("replication-jump") || !r.is("non-persistent-ckpt-type", "local"));
       },
       "local checkpoints are replicated over ranks that are a jump apart",
       "--non-persistent-ckpt-type local --replication-jump 8"},
      {"local_checkpoint_folder",
       {"non-persistent-ckpt-type", "non-persistent-local-ckpt-dir"},
       [](const JudgedRun& r) {
         return r.is("non-persistent-ckpt-type", "local") && !r.has("non-persistent-local-ckpt-dir");
       },
       "a local checkpoint has a folder",
       "--non-persistent-local-ckpt-dir"},
      {"fim_data",
       {"fim-data", "mock-data", "fim-rate", "fim-spm-rate"},
       [](const JudgedRun& r) {
         return r.flag("fim-data") &&
                (r.flag("mock-data") || r.decimal("fim-rate") == 0.0 || r.decimal("fim-spm-rate") == 0.0);
       },
       "data whose middle is filled in are no mock data, and have rates above 0",
       "--data-path in the place of --mock-data"},
      {"weight_decay_range",
       {"weight-decay-incr-style", "start-weight-decay", "end-weight-decay"},
       is_decay_range_broken,
       "a weight decay that changes has a start and an end, and one that is constant has neither",
       "--weight-decay-incr-style linear --start-weight-decay 0 --end-weight-decay 0.1"},
      {"two_data_sources",
       {"data-path", "mock-data", "train-data-path", "valid-data-path", "test-data-path"},
       [](const JudgedRun& r) { return data_sources(r) > 1; },
       "a training has one source of data",
       "one of them"},
      {"two_data_sources",
       {"data-args-path", "data-path"},
       [](const JudgedRun& r) { return r.has("data-args-path") && r.has("data-path"); },
       "a training has one source of data",
       "one of them"},
      {"inference_threshold_pp",
       {"inference-batch-times-seqlen-threshold", "pipeline-model-parallel-size"},
       [](const JudgedRun& r) {
         return r.number("inference-batch-times-seqlen-threshold", -1) > -1 && r.pp() == std::int64_t{1};
       },
       "a batch is cut for a pipeline where there is one",
       "leave --inference-batch-times-seqlen-threshold out"},
  };
}

}  // namespace verify
