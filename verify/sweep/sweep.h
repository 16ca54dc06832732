#pragma once

/// A sweep over layouts of one job: each layout that Megatron accepts, with what a rank of it holds, what a
/// step of it sends, its bubble, and on a machine its estimated time. All are closed forms; nothing is run.
///
/// Shapes  bytes of memory are those of the stage that holds most; bytes that are sent are those of all
///         ranks of the job in one step. The bubble is (pp - 1) / (chunks * microbatches), the share of the
///         work of a rank that it waits if all steps take equally long. Bytes and times are absent where the
///         calls of a step are not known in closed form (step_work.h): `unknown` says why.
/// Calls   A layout is accepted if scenario_request() takes it, so the rules stand where they stand. All
///         arguments of a run of --from are judged for each layout.
/// Errors  sweep_without_result: no layout is accepted, or none is tried.
/// Exact   The order: layouts that fit before those that do not; then the estimated time, or without a
///         machine the bytes across nodes, the smaller first and the unknown last; then tp, pp, cp, ep, the
///         microbatch and recomputation, the smaller first.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verify/sweep/machine.h"
#include "verify/sweep/sweep_space.h"

namespace verify {

struct SweptLayout {
  SweepPoint point;
  int dp = 1;
  std::int64_t microbatches = 1;
  bool is_own = false;  // the layout of the scenario itself
  std::int64_t static_bytes = 0;
  std::optional<std::int64_t> peak_bytes;  // absent where activations are not counted
  std::size_t stage = 0;                   // the one that holds most
  std::optional<bool> fits;                // as in MemoryReport
  std::optional<std::int64_t> bytes_inside, bytes_across;
  std::string unknown;  // why they are absent
  double bubble = 0;
  std::optional<double> seconds;  // an estimate (step_time.h)
};

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
};

SweepReport sweep(const Scenario& scenario, const SweepSpace& space, const std::optional<Machine>& machine);

}  // namespace verify
