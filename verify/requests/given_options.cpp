#include "verify/requests/given_options.h"

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/refusals.h"
#include "sim/layout/size_rules.h"
#include "verify/run_arguments/run_arguments.h"

namespace verify {

namespace {

constexpr std::string_view kChunks = "--virtual-pipeline-model-parallel-size";
constexpr std::string_view kMicrobatches = "--num-microbatches";

/// Returns the option that gives the chunks in place of their number; "" where none does.
std::string option_of_chunks(const Settings& settings) {
  if (settings.has(std::string(kChunks.substr(2)))) return "";
  for (const char* option : {"num-virtual-stages-per-pipeline-rank", "num-layers-per-virtual-pipeline-stage",
                             "pipeline-model-parallel-layout"})
    if (settings.has(option)) return fmt::format("--{}", option);
  return "";
}

void replace_all(std::string& text, std::string_view name, std::string_view with) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + with.size()))
    text.replace(at, name.size(), with);
}

/// Returns the number behind an option with which a text ends: 8 of "--num-microbatches 8".
std::optional<std::int64_t> number_of(std::string_view text, std::string_view option) {
  const std::size_t at = text.find(option);
  if (at == std::string_view::npos || at + option.size() + 1 > text.size()) return std::nullopt;
  return whole_number(text.substr(at + option.size() + 1));
}

void name_chunks(const std::string& given, sim::Refusal& refusal) {
  const bool counts_chunks = given == "--num-virtual-stages-per-pipeline-rank";
  if (!counts_chunks && number_of(refusal.hint, kChunks))
    refusal.hint.replace(refusal.hint.find(kChunks), std::string::npos, fmt::format("another {}", given));
  for (std::string* text : {&refusal.option, &refusal.numbers, &refusal.rule, &refusal.hint})
    replace_all(*text, kChunks, given);
}

void name_mapping(bool has_order, sim::Refusal& refusal) {
  if (refusal.option != "--order") return;
  refusal.option = "--use-tp-pp-dp-mapping";
  refusal.hint = fmt::format("leave --use-tp-pp-dp-mapping{} out", has_order ? " and --order" : "");
}

void name_batch(std::int64_t round, sim::Refusal& refusal) {
  if (refusal.option == kMicrobatches) {
    refusal.option = "--global-batch-size";
    refusal.numbers += fmt::format(", in microbatches of {} sequences on all replicas", round);
  }
  if (const auto microbatches = number_of(refusal.hint, kMicrobatches))
    refusal.hint = fmt::format("--global-batch-size {}", sim::capped_product({*microbatches, round}));
}

}  // namespace

sim::Refusal in_given_options(sim::Refusal refusal, const Settings& settings,
                              std::optional<std::int64_t> round) {
  if (const std::string given = option_of_chunks(settings); !given.empty()) name_chunks(given, refusal);
  if (settings.text("use-tp-pp-dp-mapping", "") == "true") name_mapping(settings.has("order"), refusal);
  if (round && settings.has("global-batch-size") && !settings.has("num-microbatches"))
    name_batch(*round, refusal);
  return refusal;
}

void refuse_in_given_options(const sim::Error& error, const Settings& settings,
                             std::optional<std::int64_t> round) {
  std::vector<sim::Refusal> further = sim::further_refusals(error);
  for (sim::Refusal& refusal : further) refusal = in_given_options(std::move(refusal), settings, round);
  throw sim::SeveralRefused(in_given_options(error.refusal(), settings, round), std::move(further));
}

}  // namespace verify
