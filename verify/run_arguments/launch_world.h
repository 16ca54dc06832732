#pragma once

/// How many processes a launch starts, as the words before the training script say: of torchrun,
/// torch.distributed.launch, deepspeed, accelerate, srun, sbatch, mpirun, and #SBATCH lines; or the arguments
/// of a script that starts the processes itself, as that of slime does.
///
///   LaunchWorld world;
///   world.read(words_of_sbatch, "#SBATCH");
///   world.read(words_before_the_script, "");
///   world.take(values, run);
///
/// Exact   A script's own arguments count where they say both sizes. Else torchrun counts where it is there,
///         because it starts the processes that train: nnodes (1) times nproc_per_node (1); a word among its
///         options that is not known may hold the two. Else num_nodes (1) times num_gpus of deepspeed, unless
///         a hostfile alone says its nodes; or num_processes of accelerate; or ntasks, or nodes times
///         ntasks-per-node (or gpus-per-node) of srun or #SBATCH, or the processes of mpirun. There is no
///         number where a factor is not a whole number from 1 on.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/run_arguments/shell_values.h"

namespace verify {

class LaunchWorld {
 public:
  void read(const ShellFields& words, const std::string& launcher);
  /// Reads the arguments of the script, among which may be sizes of a world that it starts.
  void read_arguments(const ShellFields& words);

  /// Gives a run the number of its ranks and the GPUs of a node: as the launcher that counts says them, or
  /// else its processes on a node. What is not known of them becomes unresolved.
  void take(const ShellValues& values, RunArguments& run) const;
  /// Sentences about what cannot start so: processes, nodes and GPUs that contradict each other. `visible` is
  /// the list of CUDA_VISIBLE_DEVICES; "" where it is not known.
  std::vector<std::string> contradictions(std::string_view visible) const;
  /// The variables that Slurm sets from #SBATCH lines: SLURM_NNODES and its like.
  std::map<std::string, ShellField> slurm_variables() const;

 private:
  struct Factor {
    std::string written;  // "--nnodes"
    ShellField value;
  };
  using Factors = std::map<std::string, Factor>;  // by what they say (launch_words.tsv)

  struct Product {
    std::string launcher;
    std::vector<Factor> factors;
  };
  std::size_t read_option(std::string_view launcher, const ShellFields& words, std::size_t at);
  std::optional<Product> product() const;
  std::optional<Product> product_of(const std::string& launcher) const;
  /// Returns what a launcher says under this name; null if that is nothing, or if it says
  /// it of each component of a heterogeneous job by itself.
  const Factor* find(const std::string& launcher, const std::string& name) const;
  std::optional<std::int64_t> size(const std::string& launcher, const char* name) const;
  std::optional<std::int64_t> gpus_per_node(const std::string& launcher) const;

  std::map<std::string, Factors> factors_;         // by launcher: "torchrun", "srun", ...
  std::optional<ShellField> unknown_of_torchrun_;  // a word that may hold --nnodes and --nproc_per_node
  std::int64_t most_nodes_of_slurm_ = 0;  // of an allocation, whose nodes a step may share out; 0: not known
  bool starts_torchrun_by_srun_ = false;
  bool is_standalone_ = false;  // torchrun is
  /// Of `#SBATCH hetjob`, after which the lines are of another component of the job; 0: none is. The
  /// processes of such a job are those of the components that srun starts, which are not followed.
  int line_of_components_ = 0;
};

}  // namespace verify
