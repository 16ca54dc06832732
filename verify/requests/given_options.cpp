#include "verify/requests/given_options.h"

#include <fmt/format.h>
#include <string>
#include <utility>

#include "sim/layout/size_rules.h"

namespace verify {

namespace {

constexpr const char* kChunks = "--virtual-pipeline-model-parallel-size";
constexpr const char* kStages = "--num-virtual-stages-per-pipeline-rank";
constexpr const char* kMicrobatches = "--num-microbatches";
constexpr const char* kBatch = "--global-batch-size";

/// Returns the option that gives the chunks in place of their number; "" where none does.
std::string option_of_chunks(const Settings& settings) {
  const auto is_given = [&](const std::string& option) { return settings.has(option.substr(2)); };
  if (is_given(kChunks)) return "";
  for (const char* option :
       {kStages, "--num-layers-per-virtual-pipeline-stage", "--pipeline-model-parallel-layout"})
    if (is_given(option)) return option;
  return "";
}

void name_chunks(const std::string& given, sim::Refusal& refusal) {
  if (refusal.option == kChunks) refusal.option = given;
  if (!refusal.to_try || refusal.to_try->option != kChunks) return;
  refusal.to_try->option = given;
  if (given != kStages) refusal.to_try->size.reset();
}

void name_mapping(bool has_order, sim::Refusal& refusal) {
  if (refusal.option != "--order") return;
  refusal.option = "--use-tp-pp-dp-mapping";
  refusal.hint = fmt::format("leave --use-tp-pp-dp-mapping{} out", has_order ? " and --order" : "");
}

void name_batch(std::int64_t round, sim::Refusal& refusal) {
  if (refusal.option == kMicrobatches) {
    refusal.option = kBatch;
    refusal.numbers += fmt::format(", in microbatches of {} sequences on all replicas", round);
  }
  if (!refusal.to_try || refusal.to_try->option != kMicrobatches || !refusal.to_try->size) return;
  refusal.to_try = {kBatch, sim::capped_product({*refusal.to_try->size, round})};
}

}  // namespace

sim::Refusal in_given_options(sim::Refusal refusal, const Settings& settings,
                              std::optional<std::int64_t> round) {
  if (const std::string given = option_of_chunks(settings); !given.empty()) name_chunks(given, refusal);
  if (settings.text("use-tp-pp-dp-mapping", "") == "true") name_mapping(settings.has("order"), refusal);
  if (round && settings.has("global-batch-size") && !settings.has("num-microbatches"))
    name_batch(*round, refusal);
  if (refusal.to_try) refusal.hint = sim::text_of(*refusal.to_try);
  return refusal;
}

}  // namespace verify
