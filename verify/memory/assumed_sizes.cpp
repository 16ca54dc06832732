#include "verify/memory/assumed_sizes.h"

#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <utility>

#include "verify/megatron_rules/run_of_file.h"
#include "verify/memory/named_vocabulary.h"
#include "verify/output/phrases.h"
#include "verify/requests/command_requests.h"
#include "verify/vocabulary/derived_options.h"
#include "verify/vocabulary/padded_vocabulary.h"

namespace verify {

namespace {

constexpr const char* kVocabulary = "vocab-size";
constexpr const char* kWorld = "world-size";
/// A size that is chosen: no published tokenizer of a GPT has many fewer entries.
constexpr std::int64_t kChosenEntries = 32'000;

std::int64_t size_of(const Settings& settings, const char* option, std::int64_t fallback = 1) {
  return settings.number(option).value_or(fallback);
}

void take(std::string option, std::int64_t value, std::string sentence, AssumedSizes& assumed) {
  assumed.line.settings.remove(option);
  assumed.line.settings.append(option, {fmt::format("{}", value)});
  assumed.sizes.push_back({std::move(option), value, std::move(sentence)});
}

void take_vocabulary(const Scenario& scenario, AssumedSizes& assumed) {
  const Settings& settings = scenario.settings;
  if (settings.has(kVocabulary)) return;
  if (const auto named = named_vocabulary(scenario.run.values)) {
    take(kVocabulary, named->entries,
         fmt::format("The vocabulary has {} entries, by {} ({}).", grouped_digits(named->entries),
                     named->argument, named->source),
         assumed);
    return;
  }
  assumed.knows_vocabulary = false;
  const std::int64_t tp = size_of(settings, "tensor-model-parallel-size"),
                     divisor = size_of(settings, "make-vocab-size-divisible-by", kVocabularyDivisor);
  const std::int64_t entries = padded_vocabulary(kChosenEntries, tp, divisor).value_or(kChosenEntries);
  take(kVocabulary, entries,
       fmt::format("The vocabulary is not known. The figures are those of {} entries.",
                   grouped_digits(entries)),
       assumed);
}

/// A sequence has as many tokens as there are positions. Megatron requires both numbers of a run.
void take_length(const Scenario& scenario, AssumedSizes& assumed) {
  constexpr const char *kLength = "seq-length", *kPositions = "max-position-embeddings";
  for (const auto& [option, other] : {std::pair(kLength, kPositions), std::pair(kPositions, kLength)}) {
    const std::optional<std::int64_t> length = scenario.settings.number(other);
    const bool is_needed = option == kLength || scenario.run.is_given();
    if (scenario.settings.has(option) || !length || !is_needed) continue;
    take(option, *length, fmt::format("--{} is not given; --{} {} is taken.", option, other, *length),
         assumed);
  }
}

/// Whether the run is started by a script, whose number of nodes is often that of a first try.
bool is_of_a_script(const AssumedSizes& assumed) {
  const CommandLine& line = assumed.line;
  return !line.run.script.empty() && !line.settings.has(kWorld) && line.scenarios.empty();
}

void take_world(const Settings& settings, AssumedSizes& assumed) {
  const std::optional<std::int64_t> given = settings.number(kWorld);
  const std::optional<std::int64_t> fewest = fewest_ranks(settings);
  if (!fewest || (given && (*given >= *fewest || !is_of_a_script(assumed)))) return;
  const char* more = settings.flag("no-distributed-optimizer")
                         ? ""
                         : " The distributed optimizer of more ranks holds less on each.";
  const std::string reason = given ? fmt::format("The script starts only {}", counted(*given, "rank"))
                                   : "The number of ranks is not known";
  take(kWorld, *fewest,
       fmt::format("{}. The answer is for {}, the fewest that this layout takes.{}", reason,
                   counted(*fewest, "rank"), more),
       assumed);
}

}  // namespace

std::optional<std::int64_t> fewest_ranks(const Settings& settings) {
  const std::int64_t tp = size_of(settings, "tensor-model-parallel-size");
  const std::int64_t dense = tp * size_of(settings, "context-parallel-size");
  const std::int64_t of_experts =
      size_of(settings, "expert-tensor-parallel-size", tp) * size_of(settings, "expert-model-parallel-size");
  return product_of({dense / std::gcd(dense, of_experts), of_experts,
                     size_of(settings, "pipeline-model-parallel-size"),
                     size_of(settings, "num-distributed-optimizer-instances")});
}

AssumedSizes with_assumed_sizes(const CommandLine& line, bool takes_world) {
  AssumedSizes assumed{.line = line, .sizes = {}};
  const Scenario scenario = requested_scenario(line);
  scenario.settings.check();
  take_length(scenario, assumed);
  if (takes_world) take_world(scenario.settings, assumed);
  take_vocabulary(scenario, assumed);
  return assumed;
}

}  // namespace verify
