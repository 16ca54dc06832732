#pragma once

/// The interpreter that has imported what ranks import, and forks the ranks of one run after another
/// (verify/python/shardproof/start.py).
///
/// Calls   provide() before the descriptors of a run are made, begin() with them, and end_run() when its
///         ranks are over. An interpreter whose ranks have to be ended is ended; the next run gets another.
/// Errors  run_program_not_started: the interpreter cannot be started.
/// Exact   a keeper (keeper.h) ends all processes that a program has started, also when this one is
///         interrupted or killed. There is one object at a time.

#include <chrono>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "verify/run/guest_pipes.h"
#include "verify/run/keeper.h"
#include "verify/run/python_command.h"

namespace verify {

/// How a program is started.
struct StartCommand {
  PythonCommand python;
  using Variables = std::vector<std::pair<std::string, std::string>>;
  Variables variables = {};   // of the environment: those that a launcher sets alike for all ranks
  std::string client_folder;  // where the package shardproof lies
};

class GuestStart {
 public:
  static constexpr std::chrono::milliseconds kGrace{5000};  // for what ends by itself

  GuestStart() = default;
  ~GuestStart() { end(); }
  GuestStart(const GuestStart&) = delete;
  GuestStart& operator=(const GuestStart&) = delete;

  /// Starts the interpreter, unless it runs already. Returns whether it has started it.
  bool provide(const StartCommand& command);
  /// Has it fork ranks that have these descriptors.
  void begin(const std::vector<int>& descriptors);
  /// Ends what the ranks of a run have left. If they are not over, ends them and the interpreter.
  void end_run(bool is_over);
  /// Ends all, and returns how the interpreter has ended: "exit code 1", "signal 9".
  std::string end();
  /// What the interpreter itself writes.
  const Descriptor& output() const { return output_[0]; }

 private:
  bool serves(const StartCommand& command) const;
  void start();

  StartCommand command_;
  pid_t keeper_ = -1;
  bool is_idle_ = true;  // it runs no ranks, and so it ends when it is not to fork any more
  GuestPipes::Pair life_, control_, output_;
  std::optional<InterruptsEndKeeper> interrupts_;
};

}  // namespace verify
