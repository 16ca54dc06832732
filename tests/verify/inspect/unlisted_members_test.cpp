// Proves that groups are told apart whose members no dump lists, or whose names no call has, and that nobody
// is named for them where their members cannot be told.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/verify/inspect/small_jobs.h"
#include "verify/inspect/inspection.h"
#include "verify/inspect/inspection_text.h"
#include "verify/recorded_job/job.h"

namespace {

using test::are_all;
using test::completed;
using test::pending;
using test::suspects;
using test::TestDump;
using verify::Inspection;
using verify::SuspectKind;

using Ranks = std::vector<int>;

constexpr const char* kTensor = "TENSOR_MODEL_PARALLEL_GROUP";

/// Ranks with the world and a pair each.
std::vector<TestDump> pairs_of_world(int world) {
  std::vector<TestDump> dumps = test::ranks_of_world(world, true);
  for (TestDump& dump : dumps) dump.groups[1].description = kTensor;
  return dumps;
}

/// Inspects dumps whose files and entries have none of these fields.
Inspection inspected_without(const std::vector<TestDump>& dumps, const std::vector<std::string>& fields) {
  verify::Recordings recordings;
  verify::SharedRanks lists;
  verify::ValueTree tree;
  for (const TestDump& dump : dumps) {
    auto document = nlohmann::json::parse(test::json_of(dump));
    for (const std::string& field : fields) {
      document.erase(field);
      for (auto& entry : document["entries"]) entry.erase(field);
    }
    recordings.ranks.push_back(*verify::recording_of(document.dump(), "dump", lists, tree));
    recordings.ranks.back().rank = dump.rank;
  }
  return verify::inspect(std::move(recordings), {}, false);
}

TEST(InspectionOfUnlistedMembers, NumbersStandForTheNamesAtTheirPlaces) {
  TestDump dump;
  dump.groups = {{"0", "default_pg", {0, 1}}, {"2", kTensor, {0, 1}}, {"41", "EMBEDDING_GROUP", {0, 1}}};
  dump.calls = {completed(1, "nccl:all_reduce", 1), completed(2, "nccl:all_reduce", 1)};
  auto document = nlohmann::json::parse(test::json_of(dump));
  for (auto& entry : document["entries"]) entry.erase("process_group");
  verify::SharedRanks lists;
  verify::ValueTree tree;
  const auto recording = verify::recording_of(document.dump(), "dump", lists, tree);
  ASSERT_EQ(recording->calls.size(), 2U);
  EXPECT_EQ(recording->groups[recording->calls[0].group].name, "2");
  EXPECT_EQ(recording->groups[recording->calls[1].group].name, "41");
}

TEST(InspectionOfUnlistedMembers, ARankWithoutADumpIsOfTheGroupThatItCompletes) {
  std::vector<TestDump> dumps = pairs_of_world(4);
  for (const std::size_t rank : {0U, 1U}) dumps[rank].calls = {completed(1, "nccl:all_reduce", 1)};
  dumps[3].calls = {pending(1, "nccl:all_reduce")};
  dumps.erase(dumps.begin() + 2);
  const Inspection inspection = inspected_without(dumps, {"pg_config"});
  EXPECT_EQ(suspects(inspection), Ranks{2}) << inspection.verdict;
  EXPECT_TRUE(are_all(inspection, SuspectKind::absent));
}

TEST(InspectionOfUnlistedMembers, ARankWithoutACallIsOfTheGroupThatItCompletes) {
  std::vector<TestDump> dumps = pairs_of_world(4);
  for (const std::size_t rank : {0U, 1U}) dumps[rank].calls = {completed(1, "nccl:all_reduce", 1)};
  dumps[3].calls = {pending(1, "nccl:all_reduce")};
  const Inspection inspection = inspected_without(dumps, {"pg_config"});
  EXPECT_EQ(suspects(inspection), Ranks{2}) << inspection.verdict;
  EXPECT_TRUE(are_all(inspection, SuspectKind::host));
}

TEST(InspectionOfUnlistedMembers, TheOnlyGroupHasTheRanksThatItsGathersCount) {
  std::vector<TestDump> dumps = pairs_of_world(4);
  for (TestDump& dump : dumps) {
    dump.groups[1] = {"1", "DATA_PARALLEL_GROUP", {0, 1, 2, 3}};
    dump.calls = {pending(1, "nccl:_all_gather_base")};
    dump.calls.front().output_elements = 4 * dump.calls.front().elements;
  }
  dumps.erase(dumps.begin() + 2);
  const Inspection inspection = inspected_without(dumps, {"pg_config"});
  EXPECT_EQ(suspects(inspection), Ranks{2}) << inspection.verdict;
}

/// The last rank without a dump is not even known to be of the world.
TEST(InspectionOfUnlistedMembers, NobodyIsNamedWhereMembersAreKnownToLack) {
  std::vector<TestDump> dumps = pairs_of_world(4);
  for (const std::size_t rank : {0U, 1U}) dumps[rank].calls = {completed(1, "nccl:all_reduce", 1)};
  dumps[2].calls = {pending(1, "nccl:all_reduce")};
  dumps.pop_back();
  const Inspection inspection = inspected_without(dumps, {"pg_config"});
  EXPECT_EQ(suspects(inspection), Ranks{}) << inspection.verdict;
  EXPECT_TRUE(inspection.verdict.starts_with("The dumps do not show which rank")) << inspection.verdict;
}

TEST(InspectionOfUnlistedMembers, OneNumberOfSeveralRanksIsNotOneGroup) {
  std::vector<TestDump> dumps = pairs_of_world(4);
  for (const std::size_t rank : {0U, 1U})
    dumps[rank].calls = {completed(1, "nccl:all_reduce", 1), pending(0, "nccl:all_reduce")};
  dumps[3].calls = {pending(1, "nccl:all_reduce")};
  const Inspection inspection = inspected_without(dumps, {"pg_config", "pg_status", "process_group"});
  EXPECT_EQ(suspects(inspection), Ranks{2}) << inspection.verdict;
}

TEST(InspectionOfUnlistedMembers, NobodyIsNamedForNumbersAlone) {
  std::vector<TestDump> dumps = pairs_of_world(4);
  for (const std::size_t rank : {0U, 1U}) dumps[rank].calls = {pending(1, "nccl:all_reduce", 5)};
  for (const std::size_t rank : {2U, 3U}) dumps[rank].calls = {pending(1, "nccl:all_reduce", 6)};
  const Inspection inspection = inspected_without(dumps, {"pg_config", "pg_status", "process_group"});
  EXPECT_EQ(suspects(inspection), Ranks{}) << inspection.verdict;
  EXPECT_TRUE(inspection.verdict.starts_with("The dumps do not show which rank")) << inspection.verdict;
}

TEST(InspectionOfUnlistedMembers, ARankWithoutAPendingCallIsNamedBesideNumbersAlone) {
  std::vector<TestDump> dumps = pairs_of_world(4);
  for (const std::size_t rank : {0U, 1U}) dumps[rank].calls = {pending(1, "nccl:all_reduce", 6)};
  dumps[2].calls = {completed(1, "nccl:all_reduce", 4)};
  dumps[3].calls = {pending(1, "nccl:all_reduce", 5)};
  const Inspection inspection = inspected_without(dumps, {"pg_config", "pg_status", "process_group"});
  EXPECT_EQ(suspects(inspection), Ranks{2}) << inspection.verdict;
  EXPECT_TRUE(are_all(inspection, SuspectKind::host));
}

/// The pairs are known as Megatron's, and no dump lists their members.
TEST(InspectionOfUnlistedMembers, TheTextSaysWhyTheLayoutIsNotKnown) {
  std::vector<TestDump> dumps = pairs_of_world(4);
  for (TestDump& dump : dumps) dump.calls = {completed(1, "nccl:all_reduce", 1)};
  const auto text_without = [&](const std::vector<std::string>& fields) {
    return verify::inspection_text(inspected_without(dumps, fields), 1000);
  };
  EXPECT_NE(text_without({"pg_config"})
                .find("It is not known: 4 ranks, and the members of Megatron's groups are not listed"),
            std::string::npos);
  for (TestDump& dump : dumps) dump.groups[1].description = "undefined";
  EXPECT_NE(text_without({"pg_config"}).find("4 ranks, and no group has a description of Megatron's."),
            std::string::npos);
}

}  // namespace
