#pragma once

/// The time of a training step on a machine, as an estimate: the counted multiply-adds and bytes of
/// step_work.h, divided by the rates of machine.h, which says how far it is off measured steps.
///
/// Shapes  times are seconds. A pass takes its multiply-adds, what its other kernels move, and one after the
///         other its calls: nothing overlaps. A call over n ranks takes the
///         latency ceil(log2 n) times, and the bytes that one rank of a ring sends at the rate inside a node;
///         where a group is on several nodes, at the rate across nodes, times its ranks on a node, because
///         each has a link of its own, if that is less. An all_to_all sends to the ranks of the node and to
///         the others at once, equal blocks even where rows are not equal. A message takes the latency and
///         its bytes, and both ranks wait for it.
/// Exact   least_step_seconds() is a bound of the pipeline's order from below: each stage computes all
///         microbatches, the first one comes through all stages before it, and the last gradient goes back
///         through them. It is the length of the estimated timeline (estimated_step.h) if all stages take
///         equally long and messages take no time.
/// Source  Narayanan et al. 2021, section 2.2, for the bubble; Thakur et al. 2005 for latency and bandwidth.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "verify/full_size/kind_traffic.h"
#include "verify/full_size/step_work.h"
#include "verify/requests/scenario_request.h"
#include "verify/sweep/machine.h"

namespace verify {

/// What communicates: the axis of the groups, where the sums over all ranks of the model count as dp, and
/// those over the two embeddings as pp.
inline constexpr std::array<std::string_view, 5> kTrafficNames = {"tp", "cp", "ep", "pp", "dp"};
using TrafficSeconds = std::array<double, kTrafficNames.size()>;

/// Returns the index in kTrafficNames of a kind of groups.
std::size_t traffic_of_kind(std::string_view kind);

struct WorkSeconds {
  double compute = 0;
  TrafficSeconds calls{};
  double all() const;
  void add(const WorkSeconds& other, double times = 1);
};

struct ChunkSeconds {
  WorkSeconds forward, backward;  // without messages between stages
};
struct RankSeconds {
  std::vector<ChunkSeconds> chunks;
  WorkSeconds of_step;  // once, after the last backward step
};

struct StepSeconds {
  std::vector<RankSeconds> ranks;
  std::vector<double> to_next;  // of a message from each pipeline rank to the next one, and back
  std::int64_t microbatches = 1;
  bool is_interleaved = false;
};

/// Returns what the passes of a step take. The work of the step must be known (step_work.h).
StepSeconds step_seconds(const ScenarioRequest& request, const std::vector<RankWork>& work,
                         KindTraffic& traffic, const Machine& machine);

/// Returns a bound of the step from below, in closed form.
double least_step_seconds(const StepSeconds& step);

}  // namespace verify
