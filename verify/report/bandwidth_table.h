#pragma once

/// Measured rows (bandwidth_round.h) as a table in the style of nccl-tests, and as JSON.
///
///   time   of one call, in microseconds
///   algbw  = size / time, in GB/s, a GB is 10^9 bytes
///   busbw  = algbw * factor: what a link has to carry, whatever the number of ranks
///
/// Shapes  factor: 2 (n - 1) / n of all_reduce; (n - 1) / n of all_gather, reduce_scatter and all_to_all; 1
///         of broadcast and reduce. Times are those of the rank whose rows they are; #wrong has every rank's
///         elements that add_wrong_elements has added. A row without a time, of a kind that the rank is not
///         in or on a clock that stood still, has "-" or null, and is in no average. redop "none" and root -1
///         where there is none, as in nccl-tests.
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

/// The mean of the rows that have one.
std::optional<double> average_bus_bandwidth(const BandwidthRows& rows);

std::string bandwidth_text(const BandwidthRows& rows, const std::string& indent = "");
Json bandwidth_json(const BandwidthRows& rows);

}  // namespace verify
