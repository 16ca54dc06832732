#include "verify/run/shrunk_layout.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <utility>
#include <vector>

#include "verify/output/phrases.h"
#include "verify/run/compared_report.h"
#include "verify/run/layout_words.h"
#include "verify/run/live_calls.h"

namespace verify {

namespace {

constexpr const char *kLayers = "num-layers", *kSamples = "global-batch-size";

bool is_falsified(const LayoutsRun& run) {
  return run.layouts.size() == 1 && !run.layouts[0].is_broken() && !run.layouts[0].compared.wrong.empty();
}

CommandLine with_layout(CommandLine line, const std::string& layout) {
  line.settings.remove("layouts");
  line.settings.append("layouts", {layout});
  return line;
}

/// Gives the program an option of Megatron, in the place of the same one.
CommandLine with_number(CommandLine line, const std::string& name, std::int64_t number) {
  const std::string option = "--" + name, value = std::to_string(number);
  std::vector<std::string>& words = line.program;
  const auto last = std::find(words.rbegin(), words.rend(), option);
  if (last == words.rend() || last == words.rbegin()) {
    words.insert(words.end(), {option, value});
  } else {
    *std::prev(last) = value;
  }
  return line;
}

/// Returns command lines of smaller runs, as far as the program tells its numbers.
std::vector<CommandLine> smaller_runs(const CommandLine& line, const std::string& told) {
  std::vector<CommandLine> all;
  const std::string layout = line.settings.text("layouts", "");
  for (const std::string& smaller : smaller_layouts(layout)) all.push_back(with_layout(line, smaller));
  const auto add = [&](const char* name, const std::optional<std::int64_t>& now,
                       std::vector<std::int64_t> numbers) {
    std::erase_if(numbers, [&](std::int64_t number) { return number < 1 || !now || number >= *now; });
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    for (const std::int64_t number : numbers) all.push_back(with_number(line, name, number));
  };
  const auto layers = told_number(told, kLayers), samples = told_number(told, kSamples);
  const std::int64_t of_replicas =
      layout_in_words(layout).dp * told_number(told, "micro-batch-size").value_or(1);
  add(kLayers, layers, {1, layers.value_or(0) / 2, layers.value_or(0) - 1});
  add(kSamples, samples, {of_replicas, samples.value_or(0) / 2});
  return all;
}

ComparedRow row_of(const ShrunkLayout& shrunk) {
  return {shrunk.run.layouts[0].name, shrunk.request->layouts[0].request.command.ranks, false,
          shrunk.run.layouts[0].compared};
}

const std::string& reproducing(const ShrunkLayout& shrunk) {
  return shrunk.request->layouts[0].request.world.reproduce;
}

}  // namespace

ShrunkLayout shrunk_layout(const CommandLine& line, const std::string& called, const std::string& layout,
                           const std::function<LayoutsRun(const LayoutsRequest&)>& run) {
  ShrunkLayout shrunk{.layout = layout, .request = std::nullopt, .run = {}};
  const auto takes = [&](const CommandLine& smaller) {
    LayoutsRequest request = layouts_request_of(smaller, called);
    LayoutsRun tried = run(request);
    ++shrunk.tries;
    if (!is_falsified(tried)) return false;
    shrunk.request = std::move(request);
    shrunk.run = std::move(tried);
    return true;
  };
  std::vector<CommandLine> candidates = {with_layout(line, layout)};
  for (;;) {
    const auto taken = std::ranges::find_if(candidates, takes);
    if (taken == candidates.end()) return shrunk;
    candidates = smaller_runs(CommandLine(*taken), shrunk.run.told);
  }
}

std::string shrunk_text(const ShrunkLayout& shrunk) {
  if (!shrunk.request) return fmt::format("\nshrunk     {}: it holds in another run\n", shrunk.layout);
  const ComparedRow row = row_of(shrunk);
  return fmt::format("\nshrunk     {}, in {}, to {} on {}:\n", shrunk.layout, counted(shrunk.tries, "run"),
                     row.name, counted(row.ranks, "rank")) +
         wrong_text(row.name, row.compared, "  reproduce  " + reproducing(shrunk) + "\n");
}

Json shrunk_json(const ShrunkLayout& shrunk) {
  if (!shrunk.request) return nullptr;
  Json one = compared_json(row_of(shrunk));
  one["tries"] = shrunk.tries;
  one["reproduce"] = reproducing(shrunk);
  return one;
}

}  // namespace verify
