#pragma once

/// The processes of a program in Python that is run as the ranks of a virtual world: one for each rank,
/// forked by the interpreter of guest_start.h.
///
/// Calls   ends() gives what sim/guest serves. What ranks write comes to `print` a line at a time, in the
///         order of each rank; lines of several ranks come in any order. finish() waits for all of them.
/// Errors  run_program_not_started: the interpreter ends before the ranks run, or those of guest_start.h. One
///         that has ended between two runs is started again.
///         guest_limit: the system gives no more descriptors.
/// Exact   nothing is left behind: sockets, memory and pipes have no names, and all processes that the
///         program has started end with the run.

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sim/guest/guest_program.h"
#include "verify/run/guest_pipes.h"
#include "verify/run/guest_start.h"

namespace verify {

/// What ranks publish of a training (verify/python/shardproof/megatron.py). They then drop nothing.
enum class Publishes { nothing, as_it_is, with_drawn_weights };

struct GuestCommand {
  StartCommand start;
  int ranks = 1;
  int ranks_of_node = 1;
  bool gives_local_rank = false;  // the program gets --local-rank=K as its first argument
  bool keeps_off_gpu = false;     // what goes to a GPU stays on the CPU, also where there is a GPU
  Publishes publishes = Publishes::nothing;
  bool computes_in_f64 = false;           // in place of the program's own floats
  std::vector<std::string> watched = {};  // patterns of modules whose values are published, too
};

class GuestProcesses {
 public:
  /// Starts the processes, and waits until the ranks run. `print` is called on a thread of its own. `start`
  /// outlives this object, and is of one at a time.
  GuestProcesses(GuestStart& start, const GuestCommand& command, GuestPipes::Print print);
  /// Ends all that still run.
  ~GuestProcesses();
  GuestProcesses(const GuestProcesses&) = delete;
  GuestProcesses& operator=(const GuestProcesses&) = delete;

  std::vector<sim::GuestEnd> ends() const;
  /// Ends all that still run once the ranks are over, and waits until all has been printed. Returns how each
  /// rank's process has ended: its exit code, or minus the signal; nothing if it was ended here.
  std::vector<std::string> finish();

 private:
  bool begins(const GuestCommand& command, const GuestPipes::Print& print);

  GuestStart& start_;
  std::optional<GuestPipes> pipes_;
  std::thread reader_;
};

}  // namespace verify
