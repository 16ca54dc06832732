#pragma once

/// What this process and those of a program have in common: for each rank a socket, a segment of memory and
/// two pipes for its output; for all of them a pipe for how they end, and a file.
///
/// Shapes  the second end of each pair is theirs.
/// Calls   read_all() on a thread of its own; has_begun() waits for what it reads.
/// Errors  guest_limit: the system gives no more descriptors.

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
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

/// Returns a line as it is shown, with the rank in front, and the name of its run if there are several:
/// "tp2| 0| step 1".
std::string text_of(const std::string& run, const GuestLine& line);

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

  /// `of_starter` is what the process that starts the ranks writes. It outlives this object.
  GuestPipes(int ranks_of_run, const Descriptor& of_starter, Print print_line)
      : ranks(static_cast<std::size_t>(ranks_of_run)),
        of_starter_(of_starter),
        print_(std::move(print_line)) {}

  /// Returns the descriptors that are theirs: `status`, `store`, and of each rank its socket, its segment,
  /// its output and its errors.
  std::vector<int> theirs() const;
  void close_theirs();
  /// Passes on all that is written, until all pipes are closed, or the end is told and nothing more comes.
  void read_all();
  void tell_end() { is_told_end_ = true; }
  /// Waits until the ranks run, or the process that starts them has ended. Returns whether they run.
  bool has_begun();
  /// Waits for a while until the processes of all ranks have ended. Returns whether they have.
  bool is_over_within(std::chrono::milliseconds time);
  /// Returns what the process that starts the ranks has written last; "" if nothing.
  std::string last_of_starter();

  std::vector<OfRank> ranks;
  Pair status = pipe_pair();
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
  void take_end(const Source& source);

  const Descriptor& of_starter_;
  Print print_;
  std::atomic<bool> is_told_end_ = false;  // no rank runs any more; what still holds a pipe is not theirs
  std::string status_begun_, starter_begun_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  bool has_begun_ = false, is_over_ = false;
  std::string starter_written_;
};

}  // namespace verify
