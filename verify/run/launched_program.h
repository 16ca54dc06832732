#pragma once

/// The program in Python that a command starts as ranks, itself or by the launcher of PyTorch:
///
///   python train.py
///   torchrun --nnodes 2 --nproc-per-node 4 train.py
///   python -m torch.distributed.run --nproc-per-node 4 -m my.train
///
/// Shapes  The options of the launcher are read by the table of launch_words.h. The interpreter of torchrun
///         is that of its first line; options of the launcher's interpreter are not the ranks'.
/// Errors  run_program_missing: no program is named (python_command.h), or the first line of torchrun names
///         no interpreter; run_program_not_started: there is no torchrun; run_ranks: --ranks is not what the
///         launcher starts, or the launcher does not say how many it starts; missing_option: there is no
///         launcher, and --ranks is not given.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verify/run/python_command.h"

namespace verify {

/// What a launcher says of its ranks.
struct LaunchedRanks {
  std::string launcher;                       // "torchrun"
  std::optional<std::int64_t> ranks;          // absent where a factor is no number
  std::optional<std::int64_t> ranks_of_node;  // as far as it is said
  std::string unknown = {};                   // what is no number: "--nnodes=1:4"
  bool gives_local_rank = false;              // the program gets --local-rank=K as its first argument
  std::vector<std::pair<std::string, std::string>> variables = {};  // that all ranks get alike
};

struct LaunchedProgram {
  PythonCommand python;
  std::optional<LaunchedRanks> launched = {};  // by a launcher
};

LaunchedProgram launched_program(const std::vector<std::string>& words);

struct RankCounts {
  int ranks = 1;
  int ranks_of_node = 1;
};

/// Returns how many ranks run, and how many of them are on a node. `given` is --ranks.
RankCounts rank_counts(const LaunchedProgram& program, std::optional<std::int64_t> given);

}  // namespace verify
