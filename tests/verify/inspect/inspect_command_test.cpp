// Proves what the command does with files as people have them: copies of dumps, long results, large ranks,
// and everything in a folder that is no dump.

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "tests/support/run.h"
#include "tests/verify/inspect/small_jobs.h"
#include "tests/verify/recordings/folder.h"

namespace {

namespace fs = std::filesystem;
using test::TestDump;

/// A folder of dumps, one a rank.
class Dumps : public test::FolderOfFiles {
 public:
  explicit Dumps(const std::string& name, const std::vector<TestDump>& dumps = {}) : FolderOfFiles(name) {
    for (const TestDump& dump : dumps) add("dump_" + std::to_string(dump.rank), test::pickle_of(dump));
  }
};

test::RunResult inspect(const std::string& words) { return test::run("inspect " + words); }
std::string in_quotes(const fs::path& path) { return "'" + path.string() + "'"; }

/// A world of which the last rank has not come to a call.
std::vector<TestDump> ranks_that_wait(int world) {
  std::vector<TestDump> dumps = test::ranks_of_world(world);
  for (TestDump& dump : dumps) {
    if (dump.rank + 1 < world) dump.calls = {test::pending(0, "nccl:all_reduce")};
  }
  return dumps;
}

/// A shell's "inspect -- dumps/*" names files, and needs no option for them.
TEST(InspectCommand, FilesBehindTwoDashesAreDumps) {
  const Dumps dumps("inspect-dashes", ranks_that_wait(3));
  std::string files;
  for (int rank = 0; rank < 3; ++rank)
    files += " " + in_quotes(dumps.path() / ("dump_" + std::to_string(rank)));
  EXPECT_EQ(inspect("--" + files).out, inspect(files).out);
  EXPECT_EQ(inspect("--" + files).exit_code, 1);
  // Words of which one is no file are a command line.
  EXPECT_EQ(inspect("--" + files + " train.py").exit_code, 2);
}

TEST(InspectCommand, CopiesOfDumpsChangeNothingAndAreSaid) {
  const Dumps one("inspect-one", ranks_that_wait(3)), copy("inspect-copy", ranks_that_wait(3));
  const test::RunResult single = inspect(in_quotes(one.path()) + " --format json");
  const test::RunResult twice =
      inspect(in_quotes(one.path()) + " " + in_quotes(copy.path()) + " --format json");
  EXPECT_EQ(single.exit_code, 1);
  EXPECT_EQ(twice.exit_code, 1) << twice.err;
  auto expected = nlohmann::json::parse(single.out), found = nlohmann::json::parse(twice.out);
  for (int rank = 0; rank < 3; ++rank)
    expected["cannot_tell"].push_back((one.path() / ("dump_" + std::to_string(rank))).string());
  const auto& notes = found["cannot_tell"];
  ASSERT_EQ(notes.size(), expected["cannot_tell"].size());
  for (std::size_t i = notes.size() - 3; i < notes.size(); ++i) {
    EXPECT_TRUE(notes[i].get<std::string>().ends_with("and was left out.")) << notes[i];
    EXPECT_NE(notes[i].get<std::string>().find(copy.path().string()), std::string::npos) << notes[i];
  }
  for (const char* member : {"verdict", "suspects", "layout", "groups", "waits", "findings"})
    EXPECT_EQ(found[member], expected[member]) << member;
}

TEST(InspectCommand, TwoDumpsOfARankThatDifferAreRefused) {
  const Dumps one("inspect-first", ranks_that_wait(3));
  std::vector<TestDump> later = ranks_that_wait(3);
  later[1].calls.push_back(test::pending(0, "nccl:all_reduce", 2));
  const Dumps other("inspect-second", later);
  const test::RunResult result = inspect(in_quotes(one.path()) + " " + in_quotes(other.path()));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("dump_1"), std::string::npos) << result.err;
}

/// Pairs of which the second rank has not come: each is a row, a suspect and a finding.
TEST(InspectCommand, AllShowsEveryRow) {
  constexpr int kPairs = 20;
  std::vector<TestDump> dumps = test::ranks_of_world(2 * kPairs, true);
  for (TestDump& dump : dumps) {
    if (dump.rank % 2 == 0) dump.calls = {test::pending(1, "nccl:all_reduce")};
  }
  const Dumps folder("inspect-all", dumps);
  const test::RunResult some = inspect(in_quotes(folder.path())),
                        all = inspect("--all " + in_quotes(folder.path()));
  EXPECT_EQ(some.exit_code, 1);
  EXPECT_EQ(all.exit_code, 1);
  for (const char* rest :
       {"... and 4 more ranks (--all shows them)", "... and 4 more calls (--all shows them)",
        "... and 4 more findings (--all shows them)"}) {
    EXPECT_NE(some.out.find(rest), std::string::npos) << rest << "\n" << some.out;
    EXPECT_EQ(all.out.find(rest), std::string::npos) << rest;
  }
  EXPECT_EQ(some.out.find("Rank 38 waits"), std::string::npos);
  EXPECT_NE(all.out.find("Rank 38 waits"), std::string::npos) << all.out;
  EXPECT_EQ(all.out.find("--all"), std::string::npos) << all.out;
}

TEST(InspectCommand, FoldersWithinAFolderAreNotReadAndSaid) {
  const Dumps outer("inspect-outer");
  for (const int rank : {0, 1}) {
    const fs::path inner = outer.path() / ("node" + std::to_string(rank));
    fs::create_directories(inner);
    std::ofstream(inner / ("dump_" + std::to_string(rank))) << test::json_of(ranks_that_wait(2)[0]);
  }
  const test::RunResult refused = inspect(in_quotes(outer.path()));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("a folder without files, in which are 2 folders"), std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find(outer.path().string() + "/*"), std::string::npos) << refused.err;
  const fs::path inner = outer.path() / "node";
  EXPECT_EQ(inspect(in_quotes(inner.string() + "0") + " " + in_quotes(inner.string() + "1")).exit_code, 1);
}

TEST(InspectCommand, WhatCannotBeOpenedIsLeftOutAndSaid) {
  const Dumps folder("inspect-others", ranks_that_wait(3));
  ASSERT_EQ(mkfifo((folder.path() / "dump_7").c_str(), 0600), 0);
  fs::create_symlink("dump_8", folder.path() / "dump_8");
  fs::create_symlink("nothing", folder.path() / "dump_9");
  fs::create_directories(folder.path() / "dump_10");
  const test::RunResult result = inspect(in_quotes(folder.path()));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_TRUE(result.out.starts_with("Look at rank 2 first.\nwhy   Rank 2 stopped issuing calls"))
      << result.out;
  for (const char* note :
       {"1 folder within the folders was not read.",
        "3 names in the folders cannot be opened (pipes, devices, links that lead nowhere)."})
    EXPECT_NE(result.out.find(note), std::string::npos) << result.out;
  for (const char* name : {"dump_7", "dump_8", "dump_9"})
    EXPECT_EQ(inspect(in_quotes(folder.path() / name)).exit_code, 2) << name;
}

TEST(InspectCommand, FileNamesOfOtherPeopleAreRead) {
  const Dumps folder("inspect-names");
  const char* const names[] = {"dump rank 0", "dump\n1", "trace;rm -rf 2",
                               "\xff\xfe\xe9"
                               "3",
                               "-4"};
  for (const char* name : names) folder.add(name, test::pickle_of(ranks_that_wait(6)[0]));
  const test::RunResult result = inspect(in_quotes(folder.path()) + " --format json");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["suspects"].size(), 1U);
  EXPECT_EQ(json["suspects"][0]["rank"], 5);
}

/// Every field of a dump has every kind of value once.
TEST(InspectCommand, FieldsOfAnotherTypeEndInWords) {
  const auto valid = nlohmann::json::parse(test::json_of(ranks_that_wait(2)[0]));
  const nlohmann::json values[] = {nullptr,
                                   true,
                                   -1,
                                   INT64_MAX,
                                   INT64_MIN,
                                   UINT64_MAX,
                                   1e308,
                                   "",
                                   "x",
                                   nlohmann::json::array(),
                                   nlohmann::json::array({nullptr}),
                                   nlohmann::json::object(),
                                   {{"x", {1, "y"}}}};
  int inspected = 0;
  const auto judge = [&](const nlohmann::json& dump) {
    const Dumps folder("inspect-types", {ranks_that_wait(2)[1]});
    folder.add("dump_0", dump.dump());
    const test::RunResult result = inspect(in_quotes(folder.path()));
    if (result.exit_code == 2) {
      EXPECT_TRUE(result.err.starts_with("shardproof: refused [dump_")) << result.err << dump;
    } else {
      EXPECT_TRUE(result.exit_code <= 1 && !result.out.empty()) << result.err << dump;
    }
    ++inspected;
  };
  for (const nlohmann::json& value : values) {
    for (const auto& [name, own] : valid.items()) {
      nlohmann::json dump = valid;
      dump[name] = value;
      judge(dump);
    }
    for (const auto& [name, own] : valid["entries"][0].items()) {
      nlohmann::json dump = valid;
      dump["entries"][0][name] = value;
      judge(dump);
    }
    for (const char* place :
         {"/entries/0", "/pg_config/0", "/pg_config/0/ranks", "/pg_config/0/desc", "/pg_status/0",
          "/pg_status/0/last_enqueued_collective", "/pg_status/0/last_completed_collective"}) {
      nlohmann::json dump = valid;
      dump[nlohmann::json::json_pointer(place)] = value;
      judge(dump);
    }
  }
  EXPECT_EQ(inspected, 13 * (4 + 17 + 7));
}

TEST(InspectCommand, ARankIsANumberUpToItsLimit) {
  constexpr int kLast = verify::kMostRecordedRanks - 1;
  TestDump dump;
  dump.rank = kLast;
  dump.groups = {{"1", "undefined", {0, kLast}}};
  dump.calls = {test::pending(0, "nccl:all_reduce")};
  const Dumps folder("inspect-limit", {dump});
  const test::RunResult result = inspect(in_quotes(folder.path()) + " --format json");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["suspects"][0]["rank"], 0);
  EXPECT_EQ(json["suspects"][0]["kind"], "absent");

  const Dumps beyond("inspect-beyond");
  beyond.add("dump_" + std::to_string(kLast + 1), test::pickle_of(dump));
  const test::RunResult refused = inspect(in_quotes(beyond.path()));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("a rank is a number from 0 to 1048575"), std::string::npos) << refused.err;

  // A group with a number beyond is one whose members are not known: none is made up.
  dump.rank = 0;
  dump.groups[0].ranks = {0, kLast + 1};
  const Dumps members("inspect-members", {dump});
  const test::RunResult unlisted = inspect(in_quotes(members.path()) + " --format json");
  EXPECT_EQ(nlohmann::json::parse(unlisted.out)["groups"][0]["ranks"], nlohmann::json::array({0}));
}

}  // namespace
