#pragma once

/// A machine in four numbers, from which the time of a step is estimated. They stand in a file:
///
///   # Source: what the vendor states of one GPU, and of the links that it has
///   multiply-adds-per-second = 494.7e12      # of one GPU, in the dtype of training
///   bytes-per-second-inside-node = 450e9     # what a GPU sends to others of its node
///   bytes-per-second-across-nodes = 50e9     # what a GPU sends to other nodes
///   latency-seconds = 0                      # of one message
///
/// Shapes  rates are from 1e6 to 1e24, and the latency is from 0 to 1 second.
/// Errors  machine_missing: there is no such file; machine_syntax: a line that is not 'name = number', or a
///         number that is given twice; machine_key: a name that is none of the four; machine_number: a value
///         that is no number, or out of its range; machine_incomplete: a number that is not given. All that
///         is wrong with a file is refused at once.

#include <optional>
#include <string>

#include "verify/vocabulary/settings.h"

namespace verify {

struct Machine {
  std::string name;    // the file's name without ".ini"
  std::string source;  // its first line, without the comment sign
  double multiply_adds_per_second = 0;
  double bytes_per_second_inside_node = 0;
  double bytes_per_second_across_nodes = 0;
  double latency_seconds = 0;
};

Machine read_machine(const std::string& path);
/// Reads the machine of --machine; nothing without that option.
std::optional<Machine> requested_machine(const Settings& settings);

}  // namespace verify
