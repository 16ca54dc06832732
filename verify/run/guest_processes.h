#pragma once

/// The processes of a program in Python that is run as the ranks of a virtual world: one for each rank,
/// forked by one process that has imported what the program imports (verify/python/shardproof/start.py).
///
/// Calls   ends() gives what sim/guest serves. What ranks write comes to `print` a line at a time, in the
///         order of each rank; lines of several ranks come in any order. finish() waits for all of them.
/// Errors  run_program_not_started: the interpreter cannot be started, or ends before the ranks run;
///         guest_limit: the system gives no more descriptors.
/// Exact   nothing is left behind: sockets, memory and pipes have no names, and a keeper (keeper.h) ends all
///         processes that the program has started, also when this one is interrupted or killed.

#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <utility>
#include <vector>

#include "sim/guest/guest_program.h"
#include "verify/run/guest_pipes.h"
#include "verify/run/keeper.h"
#include "verify/run/python_command.h"

namespace verify {

/// What ranks publish of a training (verify/python/shardproof/megatron.py). They then drop nothing.
enum class Publishes { nothing, as_it_is, with_drawn_weights };

struct GuestCommand {
  PythonCommand python;
  int ranks = 1;
  int ranks_of_node = 1;
  bool gives_local_rank = false;  // the program gets --local-rank=K as its first argument
  using Variables = std::vector<std::pair<std::string, std::string>>;
  Variables variables = {};    // of the environment: those that a launcher sets alike for all ranks
  bool keeps_off_gpu = false;  // what goes to a GPU stays on the CPU, also where there is a GPU
  std::string client_folder;   // where the package shardproof lies
  Publishes publishes = Publishes::nothing;
  bool computes_in_f64 = false;  // in place of the program's own floats
};

class GuestProcesses {
 public:
  /// Starts the processes, and waits until the ranks run. `print` is called on a thread of its own.
  GuestProcesses(const GuestCommand& command, GuestPipes::Print print);
  /// Ends all that still run.
  ~GuestProcesses();
  GuestProcesses(const GuestProcesses&) = delete;
  GuestProcesses& operator=(const GuestProcesses&) = delete;

  std::vector<sim::GuestEnd> ends() const;
  /// Ends all that still run once the ranks are over, and waits until all has been printed. Returns how each
  /// rank's process has ended: its exit code, or minus the signal; nothing if it was ended here.
  std::vector<std::string> finish();

 private:
  void require_begun(const std::string& interpreter, const Descriptor& failure);
  void end_keeper();

  GuestPipes pipes_;
  GuestPipes::Pair life_ = GuestPipes::pipe_pair();
  pid_t keeper_ = -1;
  std::optional<InterruptsEndKeeper> interrupts_;
  std::thread reader_;
};

}  // namespace verify
