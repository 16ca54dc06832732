#pragma once

/// Reads the two kinds of compressed lists that Slurm writes: hosts ("gpu[01-03,7],login1") and the number of
/// tasks on each node ("4(x2),3").
///
/// Exact   numbers keep leading zeros: the first host of "gpu[01-03]" is gpu01.
/// Errors  host_list: an empty name, a bracket that nests or has no partner, a range or a count that is not
///         made of numbers of at most nine digits, a range that descends, more than 2^20 nodes. The message
///         names the variable that holds the list.
/// Source  Slurm's manual of scontrol, show hostnames; of sbatch, SLURM_TASKS_PER_NODE.

#include <string>
#include <vector>

namespace sim {

/// Returns the name of the first host of a list. `variable` is used in messages only.
std::string first_host(const std::string& variable, const std::string& list);

/// Returns the number of tasks on node 0, 1, 2, ...
std::vector<int> expand_tasks_per_node(const std::string& variable, const std::string& list);

}  // namespace sim
