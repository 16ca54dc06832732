#include "verify/memory/fitting.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "verify/megatron_rules/megatron_validation.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/memory/changes.h"
#include "verify/memory/scenario_memory.h"
#include "verify/requests/memory_options.h"

namespace verify {

namespace {

// ---- what may change the verdict

/// What an argument may change of the memory of a rank.
enum class Effect { anything, moves_away, adds_to_step, changes_copies };

/// Parts of names: of arguments that allocate something in a step and take nothing away, and of those about
/// formats of 8 and 4 bits and about fully sharded data parallelism.
constexpr std::pair<std::string_view, Effect> kEffects[] = {
    {"cuda-graph", Effect::adds_to_step},
    {"delay-wgrad-compute", Effect::adds_to_step},
    {"fp32-residual-connection", Effect::adds_to_step},
    {"moe-apply-probs-on-input", Effect::adds_to_step},
    {"moe-enable-deepep", Effect::adds_to_step},
    {"moe-flex-dispatcher-backend", Effect::adds_to_step},
    {"moe-input-jitter-eps", Effect::adds_to_step},
    {"moe-token-dispatcher-type", Effect::adds_to_step},
    {"overlap-moe-expert-parallel-comm", Effect::adds_to_step},
    {"tp-comm-overlap", Effect::adds_to_step},
    {"use-nccl-ub", Effect::adds_to_step},
    {"fp8", Effect::changes_copies},
    {"fp4", Effect::changes_copies},
    {"fsdp", Effect::changes_copies},
    {"data-parallel-sharding", Effect::changes_copies}};

Effect effect_of(const AccountedArgument& argument) {
  if (holds_less(argument)) return Effect::moves_away;
  const auto* const found = std::ranges::find_if(
      kEffects, [&](const auto& row) { return argument.name.find(row.first) != std::string::npos; });
  return found == std::end(kEffects) ? Effect::anything : found->second;
}

/// Returns the most bytes that an argument may add to a stage.
std::int64_t most_added(Effect effect, const StageMemory& stage) {
  if (effect == Effect::anything) return std::numeric_limits<std::int64_t>::max();
  if (effect == Effect::moves_away) return 0;
  return stage.passing_bytes() + (effect == Effect::changes_copies ? stage.parameters : 0);
}

// ---- what would help

constexpr std::int64_t kWorthIt = 100;  // a hundredth of the largest moment

/// In the words of the command line, or in those of a run's own arguments, where Megatron has others.
std::string text_of(const Change& change, bool is_run) {
  if (is_run && change.option == kNoDistributed) return "--use-distributed-optimizer";
  if (!change.value) return fmt::format("no --{}", change.option);
  if (*change.value == "true") return fmt::format("--{}", change.option);
  return fmt::format("--{}{}{}", change.option, *change.value == "false" ? "=" : " ", *change.value);
}

std::string text_of(const Changes& changes, bool is_run) {
  std::string text;
  for (const Change& change : changes) text += (text.empty() ? "" : " ") + text_of(change, is_run);
  return text;
}

/// Returns the changes as a sentence begins with them. What is left out comes first.
std::string words_of(const Changes& changes, bool is_run) {
  Changes without, with;
  for (const Change& change : changes) (change.value ? with : without).push_back(change);
  std::string words;
  for (const Change& change : without)
    words += fmt::format("{} --{}", words.empty() ? "Without" : " and", change.option);
  if (with.empty()) return words;
  return fmt::format("{} {}", words.empty() ? "With" : words + " and with", text_of(with, is_run));
}

Settings with_changes(const Scenario& scenario, const Changes& changes) {
  Settings settings = scenario.settings;
  for (const Change& change : changes) {
    settings.remove(change.option);
    if (change.value) settings.append(change.option, {*change.value});
  }
  return settings;
}

/// A run of --from that gives no batch has one microbatch on each replica, and so another batch on another
/// layout or with another microbatch.
Settings with_batch_that_follows(const Scenario& scenario, Settings settings) {
  constexpr const char* kBatch = "global-batch-size";
  if (!scenario.run.is_given()) return settings;
  const RunValues& given = scenario.run.values;
  if (given.has(kBatch) || given.has("step-batch-size-schedule")) return settings;
  const RunOfFile changed = with_options(scenario.run, settings);
  settings.remove(kBatch);
  if (changed.settings.has(kBatch)) settings.append(kBatch, changed.settings.given(kBatch));
  return settings;
}

/// Returns the arguments of a run that must be left out for the changes, because they say under another name
/// what an option of them says: with --recompute-activations, Megatron takes no other granularity.
Changes left_out_for(const Changes& changes, const Scenario& scenario, const Scenario& changed) {
  Changes left_out;
  for (const auto& [name, value] : scenario.run.values.all()) {
    const bool is_own = std::ranges::any_of(
        changes, [&](const Change& change) { return std::string_view(change.option) == name; });
    if (!is_own && !changed.run.values.has(name)) left_out.push_back({name.c_str(), std::nullopt});
  }
  return left_out;
}

/// Whether the changes compute the first layers of stages again, and these are all layers of each.
bool are_all_layers(const Changes& changes, const ScenarioRequest& request) {
  if (request.memory.recompute != RecomputeMethod::block) return false;
  if (std::ranges::none_of(changes, [](const Change& change) {
        return std::string_view(change.option) == "recompute-num-layers";
      }))
    return false;
  std::int64_t most = 0;
  for (const auto& stage : request.placement->stages)
    for (const sim::StageLayers& chunk : stage) most = std::max<std::int64_t>(most, chunk.count);
  return request.memory.recompute_layers >= most;
}

/// Returns what the changed run needs; none where it cannot have the changes, or its memory is not counted.
std::optional<Remedy> remedy_of(const Scenario& scenario, const Changes& changes) {
  try {
    const Settings settings = with_batch_that_follows(scenario, with_changes(scenario, changes));
    if (context_warnings(settings).size() > context_warnings(scenario.settings).size()) return std::nullopt;
    const Scenario changed = with_settings(scenario, settings);
    const ScenarioRequest request = scenario_request(changed, Asked::sizes);
    if (!why_no_memory(request).empty() || are_all_layers(changes, request)) return std::nullopt;
    const MemoryReport report = scenario_memory(request);
    if (!report.has_activations) return std::nullopt;  // what it would need is not known
    Changes told = left_out_for(changes, scenario, changed);
    told.insert(told.end(), changes.begin(), changes.end());
    return Remedy{.options = text_of(told, scenario.run.is_given()),
                  .words = words_of(told, scenario.run.is_given()),
                  .peak_bytes = report.stages[report.fullest()].peak_bytes(),
                  .stage = report.fullest(),
                  .fits = report.fits().value_or(false)};
  } catch (const sim::Error&) {
    return std::nullopt;  // this layout, or this model, cannot have the change
  }
}

/// Returns the smallest change of a kind that leaves what is needed beside, else the smallest one that fits.
/// Where none fits, it is the smallest one from which on further ones save less than `worth`.
std::optional<Remedy> remedy_among(const Scenario& scenario, const Steps& steps, std::int64_t now,
                                   std::int64_t worth) {
  const std::int64_t memory = memory_options(scenario.settings).gpu_memory.value_or(0);
  std::optional<Remedy> found;
  for (const Changes& changes : steps) {
    const std::optional<Remedy> remedy = remedy_of(scenario, changes);
    if (!remedy) continue;
    if (remedy->fits && memory - remedy->peak_bytes >= kTight) return remedy;
    if (found && found->fits) continue;
    if (remedy->fits || remedy->peak_bytes <= (found ? found->peak_bytes : now) - worth) found = remedy;
  }
  return found;
}

/// Changes of several kinds at once, at most one of each.
class Plan {
 public:
  Plan(const Scenario& scenario, const std::vector<Kind>& all, std::int64_t now)
      : scenario_(scenario),
        all_(all),
        memory_(memory_options(scenario.settings).gpu_memory.value_or(0)),
        now_(now),
        steps_(all.size(), kNone) {}

  /// Returns a plan that fits, in which no change can be left out or made smaller; nothing if none was found.
  std::optional<Remedy> found() {
    for (std::size_t kind = 0; kind < all_.size() && !is_enough(); ++kind)
      if (!all_[kind].takes_ranks) extend({kind});
    const std::vector<std::size_t> kinds = kinds_that_take_ranks();
    for (bool goes_on = true; goes_on && !is_enough();) goes_on = extend(kinds);
    if (!best_ || !best_->fits) return std::nullopt;
    const bool needs_enough = is_enough();
    for (std::size_t kind = all_.size(); kind-- > 0;)
      if (steps_[kind] != kNone) make_smaller(kind, needs_enough);
    return best_;
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  using Chosen = std::vector<std::size_t>;  // the step of each kind, or kNone

  bool leaves_enough(const Remedy& remedy) const {
    return remedy.fits && memory_ - remedy.peak_bytes >= kTight;
  }
  bool is_enough() const { return best_ && leaves_enough(*best_); }

  std::vector<std::size_t> kinds_that_take_ranks() const {
    std::vector<std::size_t> kinds;
    for (std::size_t kind = 0; kind < all_.size(); ++kind)
      if (all_[kind].takes_ranks) kinds.push_back(kind);
    return kinds;
  }

  std::optional<Remedy> remedy_with(const Chosen& chosen) const {
    Changes joined;
    for (std::size_t kind = 0; kind < all_.size(); ++kind) {
      if (chosen[kind] == kNone) continue;
      for (const Change& change : all_[kind].steps[chosen[kind]]) {
        const bool is_there = std::ranges::any_of(
            joined, [&](const Change& other) { return std::string_view(change.option) == other.option; });
        if (!is_there) joined.push_back(change);
      }
    }
    return remedy_of(scenario_, joined);
  }

  /// The chosen steps with one of another kind, in place of those that give its options other values.
  Chosen chosen_with(std::size_t kind, std::size_t step) const {
    Chosen chosen = steps_;
    for (std::size_t other = 0; other < kind; ++other) {
      if (chosen[other] != kNone && share_an_option(all_[other].steps[chosen[other]], all_[kind].steps[step]))
        chosen[other] = kNone;
    }
    chosen[kind] = step;
    return chosen;
  }

  /// Adds the step of these kinds that saves most, if it is worth it. Returns whether it did.
  bool extend(const std::vector<std::size_t>& kinds) {
    const std::int64_t before = best_ ? best_->peak_bytes : now_;
    std::optional<Remedy> least;
    Chosen extended;
    for (const std::size_t kind : kinds) {
      for (std::size_t step = 0; step < all_[kind].steps.size(); ++step) {
        Chosen chosen = chosen_with(kind, step);
        const std::optional<Remedy> remedy = remedy_with(chosen);
        if (!remedy || remedy->peak_bytes > (least ? least->peak_bytes - 1 : before - before / kWorthIt))
          continue;
        least = remedy;
        extended = std::move(chosen);
      }
    }
    if (!least) return false;
    best_ = least;
    steps_ = std::move(extended);
    return true;
  }

  /// Leaves the change of a kind out, or takes the smallest one that is enough.
  void make_smaller(std::size_t kind, bool needs_enough) {
    const std::size_t own = steps_[kind];
    for (std::size_t step = kNone; step != own; ++step) {  // kNone + 1 is 0
      steps_[kind] = step;
      const std::optional<Remedy> remedy = remedy_with(steps_);
      if (!remedy || !(needs_enough ? leaves_enough(*remedy) : remedy->fits)) continue;
      best_ = remedy;
      return;
    }
    steps_[kind] = own;
  }

  const Scenario& scenario_;
  const std::vector<Kind>& all_;
  std::int64_t memory_, now_;
  Chosen steps_;
  std::optional<Remedy> best_;
};

/// Returns two changes at once that fit, of each two kinds the smallest ones.
std::vector<Remedy> pairs_that_fit(const Scenario& scenario, const std::vector<Kind>& all) {
  constexpr std::size_t kMost = 3;
  std::vector<Remedy> found;
  for (std::size_t second = 1; second < all.size(); ++second) {
    for (std::size_t first = 0; first < second && found.size() < kMost; ++first) {
      Steps both;
      for (const Changes& b : all[second].steps) {
        for (const Changes& a : all[first].steps) {
          if (share_an_option(a, b)) continue;
          both.push_back(a);
          both.back().insert(both.back().end(), b.begin(), b.end());
        }
      }
      const std::optional<Remedy> remedy = remedy_among(scenario, both, 0, 0);
      if (remedy && remedy->fits) found.push_back(*remedy);
    }
  }
  return found;
}

}  // namespace

std::vector<Remedy> uses_of_room(const Scenario& scenario, const MemoryReport& report) {
  const std::int64_t memory = report.gpu_memory.value_or(0);
  if (!report.fits().value_or(false) || report.stages[report.fullest()].peak_bytes() > memory / 2) return {};
  std::vector<Remedy> uses;
  const auto add = [&](const Changes& changes) {
    const std::optional<Remedy> use = remedy_of(scenario, changes);
    const bool has_room = use && use->fits && memory - use->peak_bytes >= kTight;
    if (has_room) uses.push_back(*use);
    return has_room;
  };
  if (scenario.settings.has("recompute-granularity"))
    add({{"recompute-granularity", std::nullopt},
         {"recompute-method", std::nullopt},
         {"recompute-num-layers", std::nullopt},
         {"recompute-modules", std::nullopt}});
  const std::int64_t now = scenario.settings.number("micro-batch-size").value_or(1);
  for (const std::int64_t times : {16, 8, 4, 2})
    if (add({{"micro-batch-size", fmt::format("{}", now * times)}})) break;
  return uses;
}

std::vector<AccountedArgument> doubtful_arguments(const std::vector<AccountedArgument>& uncounted,
                                                  const StageMemory& stage, std::int64_t left) {
  std::vector<AccountedArgument> doubtful;
  std::int64_t room = left;
  std::set<std::string_view> purposes;
  for (const AccountedArgument& argument : uncounted) {
    const Effect effect = effect_of(argument);
    const std::int64_t added = most_added(effect, stage);
    if (left >= 0 ? added > 0 : effect != Effect::adds_to_step) doubtful.push_back(argument);
    if (purposes.insert(argument.sentence).second) room = added > room ? -1 : room - added;
  }
  if (left >= 0 && room >= 0) doubtful.clear();
  return doubtful;
}

const char* text_of_fit(std::int64_t left) { return left < kTight ? "fits only just" : "fits"; }

std::vector<Remedy> remedies(const Scenario& scenario, const MemoryReport& report) {
  const std::int64_t now = report.stages[report.fullest()].peak_bytes();
  const std::vector<Kind> all = kinds_of_changes(scenario);
  std::vector<Remedy> found, others;
  for (const Kind& kind : all) {
    const std::optional<Remedy> remedy = remedy_among(scenario, kind.steps, now, now / kWorthIt);
    if (!remedy || (!remedy->fits && kind.has_further_kind)) continue;
    (remedy->fits ? found : others).push_back(*remedy);
  }
  if (found.empty()) found = pairs_that_fit(scenario, all);
  if (found.empty()) {
    if (const auto several = Plan(scenario, all, now).found()) found.push_back(*several);
  }
  std::ranges::stable_sort(others, {}, &Remedy::peak_bytes);
  std::ranges::move(others, std::back_inserter(found));
  return found;
}

}  // namespace verify
