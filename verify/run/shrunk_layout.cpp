#include "verify/run/shrunk_layout.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "verify/output/phrases.h"
#include "verify/run/compared_report.h"
#include "verify/run/layout_words.h"
#include "verify/run/live_calls.h"

namespace verify {

namespace {

bool is_falsified(const LayoutsRun& run) {
  return run.layouts.size() == 1 && !run.layouts[0].is_broken() && !run.layouts[0].compared.wrong.empty();
}

/// A run that is smaller than that of the command line.
struct SmallerRun {
  std::string layout;
  std::map<std::string, std::int64_t> given;
  auto operator<=>(const SmallerRun&) const = default;
};

/// Gives the program an option of Megatron, in the place of the same one.
void give(std::vector<std::string>& words, const std::string& option, std::int64_t number) {
  const auto last = std::find(words.rbegin(), words.rend(), option);
  if (last == words.rend() || last == words.rbegin()) {
    words.insert(words.end(), {option, std::to_string(number)});
  } else {
    *std::prev(last) = std::to_string(number);
  }
}

CommandLine line_of(CommandLine line, const SmallerRun& smaller) {
  for (const char* other : {"layouts", "watch"}) line.settings.remove(other);
  line.settings.append("layouts", {smaller.layout});
  for (const auto& [option, number] : smaller.given) give(line.program, option, number);
  return line;
}

/// Returns runs that are smaller than one, as far as its program tells its numbers.
std::vector<SmallerRun> smaller_runs(const SmallerRun& run, const std::string& told) {
  std::vector<SmallerRun> all;
  for (const std::string& layout : smaller_layouts(run.layout)) all.push_back({layout, run.given});
  const auto add = [&](const std::string& name,
                       const std::function<std::vector<std::int64_t>(std::int64_t)>& less) {
    const std::optional<std::int64_t> now = told_number(told, name.c_str());
    if (!now) return;
    std::vector<std::int64_t> numbers = less(*now);
    std::erase_if(numbers, [&](std::int64_t number) { return number < 1 || number >= *now; });
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    for (const std::int64_t number : numbers) {
      all.push_back(run);
      all.back().given["--" + name] = number;
    }
  };
  const std::int64_t of_replicas =
      layout_in_words(run.layout).dp * told_number(told, "micro-batch-size").value_or(1);
  add("num-layers", [](std::int64_t now) { return std::vector{std::int64_t{1}, now / 2, now - 1}; });
  add("global-batch-size", [&](std::int64_t now) { return std::vector{of_replicas, now / 2}; });
  return all;
}

/// Returns "tp2 with --num-layers 1".
std::string text_of(const SmallerRun& smaller) {
  std::string text = smaller.layout;
  for (const auto& [option, number] : smaller.given)
    text += fmt::format("{} {} {}", text == smaller.layout ? " with" : "", option, number);
  return text;
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
  ShrunkLayout shrunk{.layout = layout, .given = {}, .request = std::nullopt, .run = {}};
  std::set<SmallerRun> tried_before;
  const auto takes = [&](const SmallerRun& smaller) {
    if (!tried_before.insert(smaller).second) return false;
    LayoutsRequest request = layouts_request_of(line_of(line, smaller), called);
    LayoutsRun tried = run(request);
    ++shrunk.tries;
    if (!is_falsified(tried)) return false;
    shrunk.given = smaller.given;
    shrunk.request = std::move(request);
    shrunk.run = std::move(tried);
    return true;
  };
  std::vector<SmallerRun> candidates = {{layout, {}}};
  for (;;) {
    const auto taken = std::ranges::find_if(candidates, takes);
    if (taken == candidates.end()) return shrunk;
    candidates = smaller_runs(SmallerRun(*taken), shrunk.run.told);
  }
}

std::string shrunk_text(const ShrunkLayout& shrunk) {
  if (!shrunk.request) return fmt::format("\nshrunk     {}: it holds in another run\n", shrunk.layout);
  const ComparedRow row = row_of(shrunk);
  return fmt::format("\nshrunk     {}, in {}, to {} on {}:\n", shrunk.layout, counted(shrunk.tries, "run"),
                     text_of(SmallerRun{row.name, shrunk.given}), counted(row.ranks, "rank")) +
         wrong_text(row.name, row.compared, "  reproduce  " + reproducing(shrunk) + "\n");
}

Json shrunk_json(const ShrunkLayout& shrunk) {
  if (!shrunk.request) return nullptr;
  Json one = compared_json(row_of(shrunk));
  one["tries"] = shrunk.tries;
  one["given"] = Json::object();
  for (const auto& [option, number] : shrunk.given) one["given"][option] = number;
  one["reproduce"] = reproducing(shrunk);
  return one;
}

}  // namespace verify
