// Proves against plain sets which ranks are missing, came twice or belong to another world, and how the
// texts name them.

#include "sim/meeting/roll_call.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>
#include <set>

#include "sim/meeting/rank_ranges.h"

namespace {

using namespace sim;

Attendee attendee(int rank, int world, std::uint64_t configuration = 7, const std::string& version = "1.0") {
  return {{version, rank, world, configuration, "node" + std::to_string(rank), {}},
          fmt::format("10.0.0.{}:500", rank)};
}

RC_GTEST_PROP(RollCall, IsCleanForTheWorldAndOnlyForIt, ()) {
  const int world = *rc::gen::inRange(1, 12);
  std::vector<Attendee> attendees = {attendee(0, world)};
  const bool is_whole = *rc::gen::arbitrary<bool>();
  for (int rank = 1; rank < world; ++rank) {
    const int times = is_whole ? 1 : *rc::gen::weightedElement<int>({{12, 1}, {1, 0}, {1, 2}});
    for (int i = 0; i < times; ++i) {
      const int kind = is_whole ? 0 : *rc::gen::weightedElement<int>({{12, 0}, {1, 1}, {1, 2}, {1, 3}});
      attendees.push_back(kind == 1   ? attendee(rank, world + 1)
                          : kind == 2 ? attendee(rank, world, 8)
                          : kind == 3 ? attendee(rank, world, 7, "2.0")
                                      : attendee(rank, world));
    }
  }
  std::map<int, int> times;
  std::set<std::string> expected;
  for (const Attendee& one : attendees) {
    if (++times[one.hello.rank] == 2) expected.insert("rendezvous_duplicate");
    if (one.hello.world_size != world) expected.insert("rendezvous_world");
    if (one.hello.configuration != 7) expected.insert("rendezvous_configuration");
    if (one.hello.program_version != "1.0") expected.insert("rendezvous_version");
  }
  if (static_cast<int>(times.size()) < world) expected.insert("rendezvous_missing");
  const std::optional<Refusal> refusal = roll_call(attendees, world, "60 s", {});
  RC_ASSERT(refusal.has_value() == !expected.empty());
  if (refusal) RC_ASSERT(expected.contains(refusal->code));
}

TEST(RollCall, NamesRanksAndBothValues) {
  std::vector<Attendee> attendees;
  for (const int rank : {0, 1, 2, 4, 5, 6, 7, 12}) attendees.push_back(attendee(rank, 13));
  DroppedConnections dropped;
  EXPECT_EQ(roll_call(attendees, 13, "60 s", dropped)->numbers,
            "ranks 3, 8-11 of 13 did not come within 60 s");
  dropped.add("10.0.0.9:4", "bad magic");
  EXPECT_EQ(roll_call(attendees, 13, "60 s", dropped)->numbers,
            "ranks 3, 8-11 of 13 did not come within 60 s, 1 other connections were dropped, the first from "
            "10.0.0.9:4: "
            "bad magic");
  EXPECT_EQ(roll_call({attendee(0, 2), attendee(0, 2)}, 2, "60 s", {})->numbers,
            "rank 0 came 2 times, from node0 (10.0.0.0:500) and node0 (10.0.0.0:500); rank 1 of 2 did not "
            "come within 60 s");
  EXPECT_EQ(roll_call({attendee(0, 3), attendee(1, 3, 8), attendee(2, 3, 8)}, 3, "60 s", {})->numbers,
            "configuration 0000000000000007 on rank 0, 0000000000000008 on ranks 1, 2");
  EXPECT_EQ(roll_call({attendee(0, 2), attendee(1, 2, 7, "2.0")}, 2, "60 s", {})->numbers,
            "version 1.0 on rank 0, 2.0 on rank 1");
  EXPECT_EQ(roll_call({attendee(0, 2), attendee(1, 4)}, 2, "60 s", {})->numbers,
            "a world of 2 on rank 0, 4 on rank 1");
}

/// The text is read back: each range expands to its ranks.
RC_GTEST_PROP(RankRanges, AreTheirRanks, ()) {
  const auto ranks = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 30));
  std::set<int> read;
  std::string text = rank_ranges(ranks) + ",";
  for (std::size_t comma = text.find(','); text != ","; comma = text.find(',')) {
    const std::string range = text.substr(0, comma);
    const std::size_t dash = range.find('-');
    const int first = std::stoi(range.substr(0, dash));
    const int last = dash == std::string::npos ? first : std::stoi(range.substr(dash + 1));
    for (int rank = first; rank <= last; ++rank) read.insert(rank);
    text.erase(0, comma + 1);
    if (text.empty()) break;
  }
  RC_ASSERT(read == std::set<int>(ranks.begin(), ranks.end()));
}

TEST(RankRanges, LongListsEnd) {
  std::vector<int> even;
  for (int i = 0; i < 40; ++i) even.push_back(2 * i);
  EXPECT_EQ(rank_ranges(even), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30 and 24 more");
  EXPECT_EQ(named_ranks({4, 4}), "rank 4");
}

}  // namespace
