#pragma once

/// Measured rows (verify/backends/bandwidth_round.h) as a table in the style of nccl-tests, and as JSON.
///
///   time   the time of one call, in microseconds
///   algbw  size / time, in GB/s, where a GB is 10^9 bytes
///   busbw  algbw * factor: the bandwidth that a link needs, which does not depend on the number of ranks
///
/// Shapes  the factor is 2 (n - 1) / n for all_reduce; (n - 1) / n for all_gather, reduce_scatter and
///         all_to_all; 1 for broadcast and reduce. Times are those of the rank to which the rows belong;
///         #wrong also counts the elements of other ranks that were added by add_wrong_elements. A row
///         without a time (the rank is in no group of its kind, or the clock stood still) shows "-" or null
///         and is in no average. A call without a reduction or a root has redop "none" or root -1, as in
///         nccl-tests.
/// Source  nccl-tests, doc/PERFORMANCE.md and src/*.cu: GetBw.

#include <cstdint>
#include <optional>
#include <string>

#include "verify/backends/bandwidth_round.h"
#include "verify/output/json.h"

namespace verify {

double bus_factor(sim::Operation operation, int ranks);
std::optional<double> algorithm_bandwidth(const BandwidthRow& row);
std::optional<double> bus_bandwidth(const BandwidthRow& row);

/// Returns the mean over the rows that have a bus bandwidth.
std::optional<double> average_bus_bandwidth(const BandwidthRows& rows);

std::string bandwidth_text(const BandwidthRows& rows, const std::string& indent = "");
Json bandwidth_json(const BandwidthRows& rows);

}  // namespace verify
