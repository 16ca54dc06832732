#pragma once

/// A sweep over layouts of one job: tp, pp, the chunks of a pipeline rank, cp and ep, the microbatch, and
/// what is computed again vary, and all else stays that of the scenario. Each layout that Megatron accepts is
/// reported with what a rank of it holds, what a step of it sends, its bubble, and on a machine its estimated
/// time. All are closed forms; nothing is run.
///
/// Shapes  bytes of memory are those of the stage that holds most; bytes that are sent are those of all
///         ranks of the job in one step. The bubble is (pp - 1) / (chunks * microbatches), the share of the
///         work of a rank that it waits if all steps take equally long. Bytes and times are absent where the
///         calls of a step are not known in closed form (step_work.h): `unknown` says why.
/// Calls   A layout is accepted if scenario_request() takes it, so the rules stand where they stand. All
///         arguments of a run of --from are judged for each layout.
/// Errors  sweep_without_result: no layout is accepted, or none is tried; sweep_values: a text that is not
///         NAME=VALUE,..., a name or a value that is none, or a name twice; missing_option: no world size or
///         no global batch.
/// Exact   The order: layouts that fit, those that fit only just, those of which it is not known, and those
///         that do not; then the estimated time, or without a machine the bytes across nodes, the smaller
///         first and the unknown last; then recomputation and the bubble; then tp, pp, chunks, cp, ep and the
///         microbatch, the smaller first.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verify/requests/scenario.h"
#include "verify/sweep/machine.h"

namespace verify {

inline constexpr const char* kRecomputations[] = {"none", "selective", "full"};

struct SweepPoint {
  std::int64_t tp = 1, pp = 1, chunks = 1, cp = 1, ep = 1, micro_batch_size = 1;
  int recompute = 0;  // of kRecomputations
  auto operator<=>(const SweepPoint&) const = default;
};

inline constexpr std::int64_t kLongPart = 8192;

/// By default, tp takes the divisors of the world up to the GPUs of a node; pp those up to the layers; with
/// several pipeline ranks the chunks 1, 2 and 4, but for stages that are spelled out; cp those up to 16 that
/// leave a rank kLongPart tokens of a sequence, which is chosen; ep the divisors of the experts and the
/// world; the microbatch 1, 2 and 4; recompute none, selective and full. The scenario's own values are tried,
/// too. --sweep-values tp=4,8 gives others. Sizes whose product does not divide the world are left out before
/// anything is asked.
struct SweepSpace {
  std::vector<std::int64_t> tp, pp, chunks, cp, ep, micro_batch_size;  // ascending
  std::vector<int> recompute;
  std::vector<SweepPoint> points(std::int64_t world_size) const;
  std::vector<std::int64_t> chunks_of(std::int64_t pipeline_ranks) const;
};

/// Returns what the options of a scenario ask for.
SweepSpace sweep_space(const Settings& settings);

/// Returns the sizes that the scenario itself has.
SweepPoint own_point(const Settings& settings);

/// Returns the scenario with other sizes.
Scenario at_point(const Scenario& scenario, const SweepPoint& point);

struct SweptLayout {
  SweepPoint point;
  int dp = 1;
  std::int64_t microbatches = 1;
  bool is_own = false;  // the layout of the scenario itself
  std::int64_t static_bytes = 0;
  std::optional<std::int64_t> peak_bytes;  // absent where activations are not counted
  std::size_t stage = 0;                   // the one that holds most
  std::optional<bool> fits;                // as in MemoryReport; absent, too, where `doubt` says why
  std::string doubt;                       // the argument that leaves it open whether the layout fits
  bool fits_only_just = false;             // as in fitting.h
  std::optional<std::int64_t> bytes_inside, bytes_across;
  std::string unknown;  // why they are absent
  double bubble = 0;
  std::optional<double> seconds;  // an estimate (step_time.h)
};

/// Whether a layout fits, the best first.
enum class Fit { yes, just, unknown, no };
Fit fit_of(const SweptLayout& layout);
/// Returns "yes", "just", "no" or, where it is not known, "-".
const char* fit_word(const SweptLayout& layout);

/// A rule that refused layouts.
struct SweepRefusal {
  std::string code;
  std::string option;
  std::string rule;
  std::string example;  // the numbers of the first layout that it refused
  std::string hint;
  std::int64_t layouts = 0;
};

struct SweepReport {
  std::int64_t world_size = 0, global_batch_size = 0;
  std::optional<std::int64_t> gpu_memory;
  std::optional<Machine> machine;
  std::int64_t tried = 0;
  std::vector<SweptLayout> layouts;    // that are accepted, the best first
  std::vector<SweepRefusal> refusals;  // the rule that refused most first; a layout may break several
  std::int64_t fitting() const;
  /// Whether no layout can fit: that none is seen to, and that none is in doubt.
  bool is_known_not_to_fit() const;
  /// Returns the place of the scenario's own layout, from 0 on; nothing where it is refused or not tried.
  std::optional<std::size_t> place_of_own() const;
};

SweepReport sweep(const Scenario& scenario, const SweepSpace& space, const std::optional<Machine>& machine);

}  // namespace verify
