// Proves that groups --against tells every way in which the groups of a job differ from those of a layout, in
// each form of a dump, and refuses what is no dump.

#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <rapidcheck/gtest.h>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "sim/layout/kind_table.h"
#include "tests/support/contains.h"
#include "tests/support/layout_generator.h"
#include "tests/support/run.h"
#include "verify/checks/group_comparison.h"
#include "verify/recordings/dump_writer.h"
#include "verify/requests/group_dump.h"

namespace {

using nlohmann::ordered_json;
using test::contains;
using verify::GroupComparison;
using What = verify::GroupDifference::What;

const std::string kLayout =
    "groups --world-size 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2";

struct Judged {
  int exit_code;
  ordered_json document;
  std::string text;
};

/// Holds the layout against a dump with this text.
Judged judged(const std::string& dump, const std::string& layout = kLayout) {
  const test::TemporaryFile file("dump.json", dump);
  const std::string words = layout + " --against '" + file.path() + "'";
  const test::RunResult text = test::run(words);
  const test::RunResult json = test::run(words + " --format json");
  EXPECT_EQ(json.exit_code, text.exit_code);
  return {json.exit_code, ordered_json::parse(json.out), text.out + text.err};
}

ordered_json own_groups(const std::string& more = "") {
  return ordered_json::parse(test::run(kLayout + " --format json" + more).out);
}

/// The list that a job prints: PyTorch's default group, and Megatron's with ascending ranks.
ordered_json printed_list() {
  ordered_json list = ordered_json::array({{"default_pg", {0, 1, 2, 3, 4, 5, 6, 7}}});
  const ordered_json own = own_groups();
  for (const auto& [kind, groups] : own["groups"].items()) {
    for (const auto& group : groups) list.push_back({sim::find_kind(kind)->description_of(kind), group});
  }
  return list;
}

std::string said(const Judged& result) {
  std::string all = result.document["differing"].dump() + ":";
  for (const auto& one : result.document["differences"])
    all += " " + one["kind"].get<std::string>() + " " + one["difference"].get<std::string>() + " " +
           one["ranks"].dump() + " (" + one["explanation"].get<std::string>() + ")";
  return all;
}

TEST(GroupsAgainst, TheOwnDocumentIsEqual) {
  const Judged result = judged(own_groups().dump());
  EXPECT_EQ(result.exit_code, 0) << result.text;
  EXPECT_EQ(result.document["form"], "shardproof");
  EXPECT_EQ(result.document["equal"], true);
  EXPECT_TRUE(contains(result.text, "no group differs; ")) << result.text;
  EXPECT_EQ(judged(own_groups(" --rank 3").dump()).exit_code, 0);
  EXPECT_EQ(judged(own_groups(" --kind tp,pp").dump(), kLayout + " --kind tp,pp").exit_code, 0);
}

TEST(GroupsAgainst, APrintedListIsEqual) {
  ordered_json list = printed_list();
  EXPECT_EQ(judged(list.dump()).exit_code, 0) << judged(list.dump()).text;
  // Gloo's twins are judged where they are, and kinds that are not modelled are counted.
  list.push_back({"DATA_PARALLEL_GROUP_GLOO", {0, 2}});
  EXPECT_EQ(judged(list.dump()).document["differing"], 3);
  list.erase(list.size() - 1);
  const ordered_json own = own_groups();
  for (const auto& group : own["groups"]["dp"]) list.push_back({"DATA_PARALLEL_GROUP_GLOO", group});
  EXPECT_EQ(judged(list.dump()).exit_code, 0) << judged(list.dump()).text;
  list.push_back({"GTP_WEIGHT_REMAT", {0}});
  EXPECT_EQ(judged(list.dump()).exit_code, 0);
  EXPECT_EQ(judged(list.dump()).document["not_judged"], 1);
}

/// What rank 3 of such a job writes, as PyTorch's recorder does: ranks are a text, and the groups in which
/// rank 3 has not communicated are absent.
const std::string kRecorded = R"({"version": "2.9", "entries": [{"record_id": 0}], "pg_config": {
  "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"},
  "4": {"name": "4", "desc": "DATA_PARALLEL_GROUP_WITH_CP", "ranks": "[1, 3]"},
  "27": {"name": "27", "desc": "TENSOR_MODEL_PARALLEL_GROUP", "ranks": "[2, 3]"},
  "31": {"name": "31", "desc": "", "ranks": "[0]"}}})";

TEST(GroupsAgainst, AFlightRecorderKnowsOnlyTheGroupsOfItsRank) {
  const Judged result = judged(kRecorded);
  EXPECT_EQ(result.exit_code, 0) << result.text;
  EXPECT_EQ(result.document["form"], "flight_recorder");
  EXPECT_EQ(result.document["not_judged"], 1);
  EXPECT_EQ(result.document["kinds"][0].dump(),
            R"({"kind":"dp-cp","description":"DATA_PARALLEL_GROUP_WITH_CP","groups":4,"equal":1,)"
            R"("not_in_dump":3,"foreign":0,"other_order":0})");
  EXPECT_TRUE(contains(result.text, "a flight recorder knows only the groups")) << result.text;
  const Judged other = judged(kRecorded, "groups --world-size 8 --tensor-model-parallel-size 4");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_EQ(said(other),
            "2: dp-cp foreign [1,3] (ours is [1,5]: rank 3 is foreign, rank 5 is missing) tp foreign [2,3] "
            "(ours is [0,1,2,3]: ranks 0,1 are missing)");
}

// ---- planted defects

TEST(GroupsAgainst, ASwappedOrderIsTold) {
  ordered_json own = own_groups();
  std::swap(own["groups"]["tp"][1][0], own["groups"]["tp"][1][1]);
  EXPECT_EQ(said(judged(own.dump())), "1: tp other_order [3,2] (our order is [2,3])");
  EXPECT_EQ(judged(own.dump()).exit_code, 1);
}

TEST(GroupsAgainst, AMissingGroupIsTold) {
  ordered_json own = own_groups();
  own["groups"]["pp"].erase(2);
  EXPECT_EQ(said(judged(own.dump())), "1: pp missing [2,6] ()");
  own = own_groups();
  own["groups"].erase("pos_embd");
  EXPECT_EQ(judged(own.dump()).document["differing"], 4);
}

/// Without tied embeddings nothing is summed over embd, so that programs which make it of the first and the
/// last rank are right, too. Multi-token prediction sums over the stage that holds its layers.
TEST(GroupsAgainst, AnEmbeddingGroupOverWhichNothingIsSummedMayHaveBothRanks) {
  const std::string untied = " --untie-embeddings-and-output-weights";
  const std::string four = "groups --world-size 4 --pipeline-model-parallel-size 4";
  const std::string predicts =
      " --num-layers 4 --mtp-num-layers 1 --pipeline-model-parallel-layout 'Ett|t|tm|L'";
  const auto dump = [](const std::string& layout) { return test::run(layout + " --format json").out; };
  EXPECT_EQ(judged(dump(kLayout), kLayout + untied).exit_code, 0);
  EXPECT_EQ(judged(dump(kLayout + untied), kLayout).exit_code, 0) << "it is not known whether they are tied";
  const Judged tied = judged(dump(kLayout + untied), kLayout + " --num-layers 2");
  EXPECT_EQ(tied.exit_code, 1);
  EXPECT_TRUE(contains(tied.text, "is missing")) << tied.text;
  EXPECT_EQ(judged(dump(four + predicts), four + predicts).exit_code, 0);
  EXPECT_EQ(judged(dump(four), four + predicts).exit_code, 1);
  EXPECT_EQ(judged(dump(four), four + predicts + untied).exit_code, 1);
}

TEST(GroupsAgainst, AForeignRankIsTold) {
  ordered_json own = own_groups();
  own["groups"]["mp"][0][3] = 6;
  EXPECT_EQ(said(judged(own.dump())),
            "2: mp foreign [0,1,4,6] (ours is [0,1,4,5]: rank 6 is foreign, rank 5 is missing) mp missing "
            "[0,1,4,5] ()");
}

TEST(GroupsAgainst, TwoMergedGroupsAreTold) {
  ordered_json list = printed_list();
  for (auto& pair : list) {
    if (pair == ordered_json{"TENSOR_MODEL_PARALLEL_GROUP", {0, 1}}) pair[1] = {0, 1, 2, 3};
  }
  list.erase(std::find(list.begin(), list.end(), ordered_json{"TENSOR_MODEL_PARALLEL_GROUP", {2, 3}}));
  EXPECT_EQ(
      said(judged(list.dump())),
      "3: tp foreign [0,1,2,3] (it joins 2 of our groups: [0,1] and [2,3]; these are the ranks of a group of "
      "tp-dp-cp) tp missing [0,1] () tp missing [2,3] ()");
}

TEST(GroupsAgainst, AnUnknownDescriptionIsForeignAndTheNearestIsNamed) {
  ordered_json list = printed_list();
  list.push_back({"TENSOR_MODEL_PARALEL_GROUP", {0, 1}});
  list.push_back({"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0", {0, 2}});
  const Judged result = judged(list.dump());
  EXPECT_EQ(
      said(result),
      "2:  foreign [0,1] (no kind has this description; the nearest is TENSOR_MODEL_PARALLEL_GROUP)  foreign "
      "[0,2] (the layout has no intra-edp groups; they would be those of edp)");
  EXPECT_EQ(judged(list.dump(), kLayout + " --kind tp").exit_code, 0);
}

TEST(GroupsAgainst, AnotherWorldIsToldFirst) {
  const Judged result = judged(own_groups().dump(), "groups --world-size 16 --tensor-model-parallel-size 2");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(result.text.starts_with("the dump is of 8 ranks, and the layout has 16 ranks\n"))
      << result.text;
  const Judged list = judged(R"([["TENSOR_MODEL_PARALLEL_GROUP", [8, 9]]])", kLayout + " --kind tp");
  EXPECT_TRUE(list.text.starts_with("the dump names rank 9, and the layout has 8 ranks\n")) << list.text;
}

// ---- refusals

std::string refusal_of(const std::string& dump, const std::string& more = "") {
  const test::TemporaryFile file("dump.json", dump);
  const test::RunResult result = test::run(kLayout + " --against '" + file.path() + "' --format json" + more);
  EXPECT_EQ(result.exit_code, 2) << result.out;
  const ordered_json error = ordered_json::parse(result.out)["error"];
  for (const char* field : {"option", "numbers", "rule", "hint"})
    EXPECT_FALSE(error[field].get<std::string>().empty()) << field;
  return error["code"].get<std::string>() + ": " + error["numbers"].get<std::string>();
}

bool is_refused_as(const std::string& code, const std::string& text) {
  return contains(text, "[" + code + "]");
}

struct Bad {
  std::string dump;
  const char* code;
  const char* numbers;  // how they begin
};

TEST(GroupsAgainst, RefusesWhatIsNoDump) {
  const Bad bad[] = {
      {"", "dump_empty", "an empty file"},
      {"[]", "dump_empty", "a dump without groups"},
      {R"({"pg_config": {}})", "dump_empty", "a dump without groups"},
      {"\x80\x02}q", "dump_form", "a pickle without 'pg_config'"},
      {"\x80\x02}(X\x09", "dump_form", "a pickle without 'pg_config'"},
      {"\x80\x02}cos\nsystem\n", "dump_opcode", "GLOBAL (0x63) at offset 3"},
      {"[[\"tp\", [0, 1]", "dump_text", "a file that is not JSON: parse error at line 1, column 15"},
      {std::string(100'000, '['), "dump_text", "a file that is not JSON: it is nested deeper than 64 levels"},
      {"{}", "dump_form", "a document without 'groups' and 'pg_config', which is no list either"},
      {"[3]", "dump_form", "element 0 of the list is not [description, ranks]"},
      {R"([["tp", [0.5]]])", "dump_form", "group 0 (tp) has a rank that is not a whole number"},
      {R"({"groups": {"tp": [[0, 1]]}})", "dump_form", "a document without 'world_size'"},
      {R"({"pg_config": {"1": {"desc": "x", "ranks": "0 to 3"}}})", "dump_form",
       "group '1' of 'pg_config' has no list of ranks"},
      {R"([["tp", []]])", "dump_ranks", "group 0 (tp): it has no ranks"},
      {R"([["tp", [0, 1, 0]]])", "dump_ranks", "group 0 (tp): rank 0 stands in it twice"},
      {R"([["tp", [0, -1]]])", "dump_ranks",
       "group 0 (tp): rank -1, where a rank is a number from 0 to 16777215"},
      {R"([["default_pg", [0, 1]], ["tp", [0, 2]]])", "dump_ranks",
       "tp: rank 2 in a world that the dump says has 2"},
      {R"([["default_pg", [0, 2]]])", "dump_ranks",
       "group 0 (default_pg): 2 ranks, of which the largest is 2"},
      {R"([["tp", [0, 1]], ["tp", [0, 1]]])", "dump_repeated",
       "tp has the group that begins with rank 0 twice"},
      {std::string(verify::kMostDumpBytes + 1, ' '), "dump_size", "more than 16777216 bytes"}};
  for (const Bad& one : bad) {
    const std::string said = std::string(one.code) + ": " + one.numbers;
    EXPECT_TRUE(refusal_of(one.dump).starts_with(said)) << refusal_of(one.dump) << "\n" << said;
  }
  const std::string of_rank = "dump_rank";
  EXPECT_TRUE(refusal_of(own_groups(" --rank 3").dump(), " --rank 4").starts_with(of_rank + ": "));
  for (const char* path : {"nowhere.json", "scenarios", "/dev/zero"}) {
    const test::RunResult result = test::run(kLayout + " --against " + path);
    EXPECT_EQ(result.exit_code, 2) << path;
    EXPECT_TRUE(is_refused_as("dump_missing", result.err)) << result.err;
  }
}

TEST(GroupsAgainst, ManyNamesAreNoWork) {
  std::string config = R"({"pg_config": {)", list = "[";
  for (int i = 0; i < 100'000; ++i) {
    config += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(": 0)";
    list += (i == 0 ? "" : ",") + ("[\"A_" + std::to_string(i)) + R"(", [0]])";
  }
  EXPECT_EQ(refusal_of(config + "}}"), "dump_limit: more than 10000 groups");
  const test::TemporaryFile file("dump.json", list + "]");
  EXPECT_EQ(test::run(kLayout + " --kind tp --against " + file.path()).exit_code, 1);
  EXPECT_EQ(test::run(kLayout + " --against " + file.path()).exit_code, 1);
}

/// The same dump as a pickle, with the opcodes of c10's pickler.
TEST(GroupsAgainst, APickleOfAFlightRecorderIsReadAsItsJson) {
  verify::RankDump dump{.rank = 3, .groups = {}, .calls = {}};
  dump.groups = {
      {.number = 0, .name = "0", .description = "default_pg", .ranks = "[0, 1, 2, 3, 4, 5, 6, 7]"},
      {.number = 1, .name = "27", .description = "TENSOR_MODEL_PARALLEL_GROUP", .ranks = "[2, 3]"}};
  for (const verify::DumpFormat format : {verify::DumpFormat::pickle, verify::DumpFormat::json}) {
    const Judged result = judged(verify::text_of(dump, format));
    EXPECT_EQ(result.exit_code, 0) << result.text;
    EXPECT_EQ(result.document["form"], "flight_recorder");
    for (const auto& kind : result.document["kinds"])
      EXPECT_EQ(kind["equal"], kind["kind"] == "tp" ? 1 : 0) << kind.dump();
  }
  dump.groups[1].ranks = "[2, 4]";
  EXPECT_EQ(judged(verify::text_of(dump, verify::DumpFormat::pickle)).exit_code, 1);
}

TEST(GroupsAgainst, TheLayoutAndTheDumpAreRefusedTogether) {
  const test::RunResult result =
      test::run("groups --world-size 8 --tensor-model-parallel-size 3 --against nowhere.json");
  EXPECT_TRUE(is_refused_as("dense_div", result.err) && is_refused_as("dump_missing", result.err))
      << result.err;
}

// ---- random layouts

verify::GroupDump dump_of(const sim::Layout& layout) {
  verify::GroupDump dump;
  dump.form = verify::DumpForm::shardproof;
  dump.world_size = layout.world_size;
  for (const sim::GroupKind& kind : layout.kinds) {
    kind.for_each_group([&](int, std::span<const int> members) {
      dump.groups.push_back({kind.name(), {members.begin(), members.end()}});
    });
  }
  return dump;
}

GroupComparison compared(const sim::Layout& layout, const verify::GroupDump& dump) {
  std::vector<const sim::GroupKind*> kinds;
  for (const sim::GroupKind& kind : layout.kinds) kinds.push_back(&kind);
  return compare_groups({layout, kinds, true, std::nullopt}, dump);
}

/// Whether a difference of this sort and kind is told, with these ranks.
bool tells(const GroupComparison& result, What what, const std::string& kind, const std::vector<int>& ranks) {
  return std::any_of(result.differences.begin(), result.differences.end(), [&](const auto& one) {
    return one.what == what && one.kind == kind && one.ranks == ranks;
  });
}

RC_GTEST_PROP(GroupsAgainst, OneChangeOfARandomLayoutIsFoundAndNamed, ()) {
  const auto sizes = *test::accepted_megatron_sizes();
  RC_PRE(sizes.world_size <= 512);
  const sim::Layout layout = sim::make_layout(sizes, sim::RuleBook::megatron);
  const verify::GroupDump whole = dump_of(layout);
  RC_ASSERT(compared(layout, whole).is_equal());
  verify::GroupDump sorted = whole;  // as PyTorch makes them
  sorted.form = verify::DumpForm::list;
  for (verify::DumpedGroup& group : sorted.groups) std::sort(group.ranks.begin(), group.ranks.end());
  RC_ASSERT(compared(layout, sorted).is_equal());

  const std::size_t chosen = *rc::gen::inRange<std::size_t>(0, whole.groups.size());
  const std::vector<int> ranks = whole.groups[chosen].ranks;
  const std::string kind = whole.groups[chosen].description;
  verify::GroupDump changed = whole;
  changed.groups.erase(changed.groups.begin() + static_cast<std::ptrdiff_t>(chosen));
  RC_ASSERT(compared(layout, changed).differing == 1);
  RC_ASSERT(tells(compared(layout, changed), What::missing, kind, ranks));

  changed = whole;
  std::vector<int>& swapped = changed.groups[chosen].ranks;
  if (swapped.size() > 1) {
    std::swap(swapped[0], swapped[*rc::gen::inRange<std::size_t>(1, swapped.size())]);
    RC_ASSERT(compared(layout, changed).differing == 1);
    RC_ASSERT(tells(compared(layout, changed), What::other_order, kind, swapped));
  }

  changed = whole;
  std::vector<int>& foreign = changed.groups[chosen].ranks;
  foreign.back() = layout.first_rank + *rc::gen::inRange(0, layout.grid_size);
  if (std::find(ranks.begin(), ranks.end(), foreign.back()) == ranks.end()) {
    const GroupComparison result = compared(layout, changed);
    const bool is_other_group = result.differing == 2 && tells(result, What::foreign, kind, foreign);
    RC_ASSERT(is_other_group && tells(result, What::missing, kind, ranks));
  }

  const sim::GroupKind& of_kind = *layout.find(kind);
  if (of_kind.count() > 1) {
    changed = whole;
    const std::size_t other =
        chosen > 0 && whole.groups[chosen - 1].description == kind ? chosen - 1 : chosen + 1;
    std::vector<int>& merged = changed.groups[chosen].ranks;
    merged.insert(merged.end(), whole.groups[other].ranks.begin(), whole.groups[other].ranks.end());
    const std::vector<int> joined = merged;
    changed.groups.erase(changed.groups.begin() + static_cast<std::ptrdiff_t>(other));
    const GroupComparison result = compared(layout, changed);
    RC_ASSERT(result.differing == 3);
    RC_ASSERT(tells(result, What::foreign, kind, joined));
    RC_ASSERT(tells(result, What::missing, kind, ranks));
    RC_ASSERT(tells(result, What::missing, kind, whole.groups[other].ranks));
  }
}

}  // namespace
