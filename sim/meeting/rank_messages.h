#pragma once

/// What ranks tell each other at a rendezvous, and as frames.
///
///   Hello       a rank to rank 0: who it is, and what it runs
///   Answer      rank 0 to each: rank 0's payload and the place among the ranks of one host; or why the world
///               does not start
///   Report      a rank to rank 0, at the end: its verdict, with a text
///   Conclusion  rank 0 to each: what all ranks end with
///
/// Exact   what is decoded was encoded: bytes that are left over, or that lack, decode to nothing. Names that
///         come from others (host, program version) have '?' in place of what does not print.
/// Errors  none: a body may come from anyone.

#include <optional>
#include <string>

#include "sim/base/error.h"
#include "sim/meeting/frame.h"

namespace sim {

inline constexpr std::size_t kMostPayload = 4096;  // bytes
inline constexpr std::size_t kMostText = 4096;     // bytes of a report
inline constexpr std::size_t kMostName = 256;      // bytes of a host name, of a program version
inline constexpr std::size_t kMostBody = 8192;     // of any of them

struct Hello {
  std::string program_version;
  int rank = 0;
  int world_size = 1;
  std::uint64_t configuration = 0;  // a hash of what must be the same everywhere
  std::string host;
  Bytes payload;
  bool operator==(const Hello&) const = default;
};

struct Answer {
  std::optional<Refusal> refusal;  // with one, the rest says nothing
  int local_rank = 0;
  int local_world_size = 1;
  Bytes payload;
};

struct Report {
  bool is_equal = true;
  std::string text;
  bool operator==(const Report&) const = default;
};

struct Ending {
  bool is_equal = true;            // on every rank
  std::optional<Refusal> failure;  // a rank did not report
};

Frame frame_of(const Hello& hello);
Frame frame_of(const Answer& answer);
Frame frame_of(const Report& report);
Frame frame_of(const Ending& ending);

std::optional<Hello> decoded_hello(const Frame& frame);
std::optional<Answer> decoded_answer(const Frame& frame);
std::optional<Report> decoded_report(const Frame& frame);
std::optional<Ending> decoded_ending(const Frame& frame);

}  // namespace sim
