#include "verify/memory/question.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/refusals.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/requested_run.h"
#include "verify/requests/scenario.h"
#include "verify/vocabulary/derived_options.h"

namespace verify {

namespace {

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

void require_answers(const CommandLine& line) {
  sim::Refusals asked;
  asked.keep([&] { require_values(line); });
  const Settings settings = requested_scenario(line).settings;
  std::vector<std::string> missing = missing_sizes(settings);
  if (missing.empty()) return asked.throw_if_any();
  if (line.run.is_given() && !settings.has("micro-batch-size")) missing.emplace_back("micro-batch-size");
  sim::Refusal refusal{.code = "missing_option",
                       .option = fmt::format("--{}", fmt::join(missing, ", --")),
                       .numbers = missing.size() == 1 ? "it is not given" : "they are not given",
                       .rule =
                           "memory is that of a GPT with known layers, hidden size, attention heads and "
                           "sequence length",
                       .hint = fmt::format("--{} N", fmt::join(missing, " N --"))};
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
