#pragma once

/// A machine in numbers, from which the time of a step is estimated. They stand in a file:
///
///   # Source: what the vendor states of one GPU, and of the links that it has
///   multiply-adds-per-second = 494.7e12      # of one GPU, in the dtype of training
///   bytes-per-second-inside-node = 450e9     # what a GPU sends to others of its node
///   bytes-per-second-across-nodes = 50e9     # what a GPU sends to other nodes
///   latency-seconds = 0                      # of one message
///
/// and may have these beside them:
///
///   bytes-per-second-of-memory = 3.35e12     # of one GPU; without it, what kernels move takes no time
///   measured-factor = 1.4                    # measured seconds of a step for each estimated one
///   measured-steps = 9                       # steps from which the factor comes
///   measured-error = 0.11                    # the median error of the estimates of those steps
///
/// Shapes  rates are from 1e6 to 1e24, the latency is from 0 to 1 second, the factor from 0.1 to 100.
/// Exact   A factor divides all rates and multiplies the latency. The error of a step is that of an estimate
///         whose factor comes from the other steps (tests/benchmarks/measured_steps.py).
/// Errors  machine_missing: there is no such file; machine_syntax: a line that is not 'name = number', or a
///         number that is given twice; machine_key: a name that is none of these; machine_number: a value
///         that is no number, or out of its range; machine_incomplete: one of the first four is not given, or
///         one of the last three without the others. All that is wrong with a file is refused at once.

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
  double bytes_per_second_of_memory = 0;                               // 0: not given
  double measured_factor = 0, measured_steps = 0, measured_error = 0;  // 0: not given
};

/// Returns what is known of the error of an estimate: "9 measured steps like this were off by 11.0 % in the
/// median", or that no measured step is known.
std::string words_of_error(const Machine& machine);

Machine read_machine(const std::string& path);
/// Reads the machine of --machine; nothing without that option.
std::optional<Machine> requested_machine(const Settings& settings);

}  // namespace verify
