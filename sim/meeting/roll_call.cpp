#include "sim/meeting/roll_call.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <utility>

#include "sim/meeting/rank_ranges.h"

namespace sim {

namespace {

constexpr std::size_t kMostNamed = 3;  // Messages are short, because people read them.

/// One possible problem of the world. It applies if `numbers` is not empty.
struct Problem {
  const char* code;
  const char* option;
  std::string numbers;
  const char* rule;
  const char* hint;
};

/// Returns "version A on rank 0, B on rank 3", or an empty text if all ranks have the same value as rank 0.
template <typename TextOf>
std::string differing(const std::vector<Attendee>& attendees, const char* what, TextOf text_of_hello) {
  std::map<std::string, std::vector<int>> others;
  const std::string first = text_of_hello(attendees.front().hello);
  for (const Attendee& attendee : attendees) {
    const std::string text = text_of_hello(attendee.hello);
    if (text != first) others[text].push_back(attendee.hello.rank);
  }
  if (others.empty()) return "";
  std::string numbers = fmt::format("{} {} on rank 0", what, first);
  std::size_t named = 0;
  for (const auto& [text, ranks] : others) {
    if (named++ == kMostNamed)
      return numbers + fmt::format(", and {} more values", others.size() - kMostNamed);
    numbers += fmt::format(", {} on {}", text, named_ranks(ranks));
  }
  return numbers;
}

std::string duplicates(const std::vector<Attendee>& attendees) {
  std::map<int, std::vector<std::string>> peers;
  for (const Attendee& attendee : attendees) {
    peers[attendee.hello.rank].push_back(fmt::format("{} ({})", attendee.hello.host, attendee.peer));
  }
  std::vector<std::string> texts;
  std::vector<int> unnamed;
  for (auto& [rank, from] : peers) {
    if (from.size() < 2) continue;
    if (texts.size() == kMostNamed) {
      unnamed.push_back(rank);
      continue;
    }
    const std::size_t count = from.size();
    from.resize(std::min(count, kMostNamed));
    texts.push_back(fmt::format("rank {} came {} times, from {}", rank, count, fmt::join(from, " and ")));
  }
  if (!unnamed.empty()) texts.push_back(fmt::format("so did {}", named_ranks(unnamed)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string missing(const std::vector<Attendee>& attendees, int world_size, const std::string& waited,
                    const DroppedConnections& dropped) {
  std::vector<bool> is_here(static_cast<std::size_t>(world_size), false);
  for (const Attendee& attendee : attendees) {
    if (attendee.hello.rank < world_size) is_here[static_cast<std::size_t>(attendee.hello.rank)] = true;
  }
  std::vector<int> absent;
  for (int rank = 0; rank < world_size; ++rank) {
    if (!is_here[static_cast<std::size_t>(rank)]) absent.push_back(rank);
  }
  if (absent.empty()) return "";
  std::string numbers =
      fmt::format("{} of {} did not come within {}", named_ranks(absent), world_size, waited);
  if (dropped.count > 0) {
    numbers += fmt::format(", {} other connections were dropped, the first from {}: {}", dropped.count,
                           dropped.first.front().peer, dropped.first.front().reason);
  }
  return numbers;
}

}  // namespace

std::optional<Refusal> roll_call(const std::vector<Attendee>& attendees, int world_size,
                                 const std::string& waited, const DroppedConnections& dropped) {
  const std::vector<Problem> problems = {
      {"rendezvous_version", "program version",
       differing(attendees, "version", [](const Hello& hello) { return hello.program_version; }),
       "all ranks run one version of the program", "install one build on all nodes"},
      {"rendezvous_world", "--world-size",
       differing(attendees, "a world of",
                 [](const Hello& hello) { return std::to_string(hello.world_size); }),
       "all ranks belong to one world",
       "start all processes with one launcher, or with the same --world-size"},
      {"rendezvous_duplicate", "--rank", duplicates(attendees), "each rank is one process",
       "give each process its own --rank, and each job that runs at the same time its own --master-port"},
      {"rendezvous_configuration", "configuration",
       differing(attendees, "configuration",
                 [](const Hello& hello) { return fmt::format("{:016x}", hello.configuration); }),
       "all ranks run one scenario with the same options",
       "use the same command line and the same files on all nodes"},
      {"rendezvous_missing", "--world-size", missing(attendees, world_size, waited, dropped),
       "rank 0 waits for every rank of its world",
       "look at what those ranks wrote, check that they reach this address, or set a longer --deadline"},
  };
  std::optional<Refusal> refusal;
  for (const Problem& problem : problems) {
    if (problem.numbers.empty()) continue;
    if (refusal) {
      refusal->numbers += "; " + problem.numbers;
    } else {
      refusal = Refusal{problem.code, problem.option, problem.numbers, problem.rule, problem.hint};
    }
  }
  return refusal;
}

}  // namespace sim
