#pragma once

/// What this process and those of a program have in common: for each rank a socket, a segment of memory and
/// two pipes for its output; for all of them a pipe for how they end, and a file.
///
/// Shapes  the second end of each pair is theirs.
/// Calls   read_all() on a thread of its own; has_begun() waits for what it reads.
/// Errors  guest_limit: the system gives no more descriptors.

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verify/run/descriptor.h"

namespace verify {

/// A line that a rank has written, to its standard output or to its standard error.
struct GuestLine {
  int rank;  // -1: the process that starts the ranks
  bool is_error;
  std::string text;
};

[[noreturn]] void refuse_limit(const char* what);

class GuestPipes {
 public:
  using Print = std::function<void(const GuestLine& line)>;
  using Pair = std::array<Descriptor, 2>;
  static Pair socket_pair();
  static Pair pipe_pair();
  static Descriptor memory_file(const char* name);

  struct OfRank {
    Pair socket = socket_pair();
    Descriptor segment = memory_file("shardproof-rank");
    Pair output = pipe_pair(), errors = pipe_pair();
    std::string output_begun = {}, errors_begun = {};  // what has come of the next line
    std::string ended = {};                            // how its process has ended
  };

  GuestPipes(int ranks_of_run, Print print_line)
      : ranks(static_cast<std::size_t>(ranks_of_run)), print_(std::move(print_line)) {}

  /// Lets the next program of this process have what is theirs.
  void let_inherit() const;
  void close_theirs();
  /// Leaves the end to which the status is written.
  void close_all_but_status();
  /// Passes on all that is written, until all pipes are closed, or the end is told and nothing more comes.
  void read_all();
  void tell_end() { is_over_ = true; }
  /// Waits until the ranks run, or the process that starts them has ended. Returns whether they run.
  bool has_begun();
  /// How the process that starts the ranks has ended, and what it has written last: "exit code 1: 'killed'".
  std::string end_of_starter();

  std::vector<OfRank> ranks;
  Pair status = pipe_pair(), starter = pipe_pair();
  Descriptor store = memory_file("shardproof-store");

 private:
  struct Source {
    const Descriptor* from;
    std::string* begun;
    std::function<void(std::string)> line;
  };
  std::vector<Source> sources();
  void take_status(const std::string& line);
  void take_of_starter(std::string line);
  void decide(bool has_begun);

  Print print_;
  std::atomic<bool> is_over_ = false;  // no rank runs any more; what still holds a pipe is not theirs
  std::string status_begun_, starter_begun_;
  std::mutex mutex_;  // of what follows
  std::condition_variable decided_;
  std::optional<bool> has_begun_;
  std::string starter_ended_, starter_written_;
};

}  // namespace verify
