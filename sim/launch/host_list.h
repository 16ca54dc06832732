#pragma once

/// Slurm's compressed lists: of hosts ("gpu[01-03,7],login1"), and of tasks on each node ("4(x2),3").
///
/// Exact   hosts in the order in which the list names them; leading zeros stay ("01-03" is 01, 02, 03).
///         Several brackets in a name count like the digits of a number, the last one fastest
///         ("r[1-2]n[1-2]": r1n1, r1n2, r2n1, r2n2).
/// Errors  host_list: an empty name, a bracket that does not close or nests, a range that is none or goes
///         down, more than 2^20 hosts. The refusal names the variable that the list came from.
/// Source  Slurm's manual of scontrol, show hostnames; of sbatch, SLURM_TASKS_PER_NODE.

#include <string>
#include <string_view>
#include <vector>

namespace sim {

std::vector<std::string> expand_host_list(const std::string& variable, std::string_view list);

/// Tasks on node 0, 1, 2, ...
std::vector<int> expand_tasks_per_node(const std::string& variable, std::string_view list);

}  // namespace sim
