#pragma once

/// The messages that ranks exchange at a rendezvous, and their encoding as frames.
///
///   Hello   each rank to rank 0: its rank and world size, what it runs, and how long it still waits
///   Answer  rank 0 to each rank: the payload of rank 0 and the place among the ranks of one host, or the
///           reason why the world does not start
///   Report  each rank to rank 0 at the end: its verdict, with a text, and how long it waits for the ending
///   Ending  rank 0 to each rank: the verdict of all ranks (a frame of kind conclusion)
///
/// Exact   a body decodes only if it is complete: with bytes missing or left over it decodes to nothing. In
///         names that come from others (host, program version) each character that is not printable becomes
///         '?'.
/// Errors  none: a body that does not decode is a result, because strangers may send any body.

#include <chrono>
#include <optional>
#include <string>

#include "sim/base/error.h"
#include "sim/meeting/frame.h"

namespace sim {

inline constexpr std::size_t kMostPayload = 4096;  // bytes of a payload
inline constexpr std::size_t kMostText = 4096;     // bytes of the text of a report
inline constexpr std::size_t kMostName = 256;      // bytes of a host name or a program version
inline constexpr std::size_t kMostBody = 8192;     // bytes of the body of any message

/// The longest time that a message can say that its rank still waits, about 30 years.
inline constexpr std::chrono::milliseconds kLongestPatience{1'000'000'000'000};

struct Hello {
  std::string program_version;
  int rank = 0;
  int world_size = 1;
  std::uint64_t configuration = 0;  // a hash of everything that must be the same on every rank
  std::string host;
  Bytes payload;
  std::chrono::milliseconds patience = kLongestPatience;  // the rank gives up when this time is over
  bool operator==(const Hello&) const = default;
};

struct Answer {
  std::optional<Refusal> refusal;  // if present, the other fields have no meaning
  int local_rank = 0;
  int local_world_size = 1;
  Bytes payload;
};

struct Report {
  bool is_equal = true;
  std::string text;
  std::chrono::milliseconds patience = kLongestPatience;  // set by finish(); as in Hello
  bool operator==(const Report&) const = default;
};

struct Ending {
  bool is_equal = true;            // whether every rank reported that it is equal
  std::optional<Refusal> failure;  // present if a rank did not report
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
