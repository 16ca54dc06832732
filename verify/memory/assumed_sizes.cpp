#include "verify/memory/assumed_sizes.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "sim/base/refusals.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/output/table_rows.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/requested_run.h"
#include "verify/requests/scenario.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/vocabulary/derived_options.h"

namespace verify {

namespace {

// ---- the vocabulary of a tokenizer

/// The rows of the table: name, entries and source.
const std::vector<TextRow>& tokenizer_rows() {
  static const std::vector<TextRow> rows = rows_of_table(
#include "tokenizers.tsv.inc"
  );
  return rows;
}

/// Returns the text in small letters, with "-" in place of "_".
std::string in_small_letters(std::string text) {
  for (char& c : text) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Whether a text has a name that is no part of a longer word, nor of the number of another version.
bool has_name(std::string_view text, std::string_view name) {
  const auto has_word_at = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool has_more = has_word_at(end) || (text.substr(end).starts_with('.') && has_word_at(end + 1) &&
                                               std::isdigit(static_cast<unsigned char>(text[end + 1])) != 0);
    if (!has_more && !(at > 0 && has_word_at(at - 1))) return true;
  }
  return false;
}

// ---- sizes that a run leaves out

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

// ---- what must be asked

/// Refuses values of the run that are not known. How many ranks it has need not be known.
void require_values(const CommandLine& line) {
  Settings given = line.settings;
  if (!given.has("world-size")) given.append("world-size", {"1"});
  require_known_values(under_options(run_of(line.run), given), option_of_run(line.settings));
}

/// Returns the sizes that are missing. One length stands for the other one.
std::vector<std::string> missing_sizes(const Settings& settings) {
  std::vector<std::string> missing = missing_of_model_shape(settings);
  std::erase(missing, "vocab-size");
  if (settings.has("max-position-embeddings")) std::erase(missing, "seq-length");
  return missing;
}

}  // namespace

std::optional<NamedVocabulary> named_vocabulary(const RunValues& values) {
  for (const char* argument : {"tokenizer-type", "tokenizer-model", "tokenizer-name-or-path", "vocab-file"}) {
    const std::string text = values.text(argument), searched = in_small_letters(text);
    for (const TextRow& row : tokenizer_rows()) {
      if (!has_name(searched, row.at(0))) continue;
      return NamedVocabulary{.entries = whole_number(row.at(1)).value(),
                             .argument = fmt::format("--{} {}", argument, sim::printable_text(text)),
                             .source = row.at(2)};
    }
  }
  return std::nullopt;
}

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

void require_answers(const CommandLine& line) {
  sim::Refusals asked;
  asked.keep([&] { require_values(line); });
  const Settings settings = requested_scenario(line).settings;
  std::vector<std::string> missing = missing_sizes(settings);
  if (missing.empty()) return asked.throw_if_any();
  if (line.run.is_given() && !settings.has("micro-batch-size")) missing.emplace_back("micro-batch-size");
  sim::Refusal refusal = refusal_of("missing_option/memory", fmt::format("--{}", fmt::join(missing, ", --")),
                                    missing.size() == 1 ? "it is" : "they are", fmt::join(missing, " N --"));
  if (!asked.empty()) {
    const sim::Refusal& unknown = asked.all().front();
    refusal.code = unknown.code;
    refusal.numbers = fmt::format("{}; {}: {}", unknown.numbers, unknown.option, refusal.numbers);
    refusal.hint = unknown.hint + " " + refusal.hint;
  }
  sim::Refusals all;
  all.keep([&] { sim::refuse(std::move(refusal)); });
  if (asked.empty()) all.keep([&] { settings.check(); });
  all.throw_if_any();
}

}  // namespace verify
