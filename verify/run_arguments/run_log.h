#pragma once

/// Reads the list of arguments that Megatron prints when a run starts:
///
///   0: ------------------------ arguments ------------------------
///   0:   accumulate_allreduce_grads_in_fp32 .............. False
///   0:   world_size ...................................... 16
///   0: -------------------- end of arguments ---------------------
///
/// A prefix of each line (a rank, a time) is dropped, and so are lines that other ranks printed in between.
/// Of several lists the last complete one is read, and a note says so. A line that a launcher broke is
/// joined if name and dots are as wide as in other lines; a note names the parts of others. The padded
/// vocabulary, which Megatron prints after the list, is an argument:
///
///   0: > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)
///
/// Shapes  Values are as Python prints them: None, True, ['a', 'b']. A list becomes several values.
/// Errors  run_log_cut: a list whose end or beginning is missing, in a log without a complete one;
///         run_file_size: a list of more than kMostRunArguments arguments.

#include <cstddef>
#include <istream>
#include <string>
#include <string_view>

#include "verify/run_arguments/run_arguments.h"

namespace verify {

/// Takes the next line without its end. Bytes beyond `most` are dropped. Returns false at the end of the
/// stream.
bool next_line(std::istream& stream, std::string& line, std::size_t most);

/// Whether the line begins or ends such a list.
bool is_ruler_of_arguments(std::string_view line);

RunArguments read_run_log(std::istream& log);

}  // namespace verify
