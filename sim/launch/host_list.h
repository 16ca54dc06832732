#pragma once

/// Expands the two kinds of compressed lists that Slurm writes: hosts ("gpu[01-03,7],login1") and the
/// number of tasks on each node ("4(x2),3").
///
/// Exact   hosts keep the order of the list, and numbers keep leading zeros ("01-03" is 01, 02, 03). If a
///         name has several brackets, the last one changes fastest, like the last digit of a number
///         ("r[1-2]n[1-2]": r1n1, r1n2, r2n1, r2n2).
/// Errors  host_list: an empty name, a name of more than 255 characters, a bracket that nests or has no
///         partner, a range or a count that is not made of numbers, a range that descends, more than 2^20
///         hosts or nodes. The message names the variable that holds the list.
/// Source  Slurm's manual of scontrol, show hostnames; of sbatch, SLURM_TASKS_PER_NODE.

#include <string>
#include <string_view>
#include <vector>

namespace sim {

/// Returns the names of all hosts of a list. `variable` is used in messages only.
std::vector<std::string> expand_host_list(const std::string& variable, std::string_view list);

/// Returns the number of tasks on node 0, 1, 2, ...
std::vector<int> expand_tasks_per_node(const std::string& variable, std::string_view list);

}  // namespace sim
