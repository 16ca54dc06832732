// Proves, with processes that play NCCL between them (played_processes.h), all of --backend nccl and of
// rungs 10 and 11 but for NCCL and CUDA themselves.

#include <algorithm>
#include <filesystem>
#include <future>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "tests/support/contains.h"
#include "tests/support/processes.h"
#include "tests/verify/recordings/folder.h"

namespace {

using test::contains;

enum class Told { by_torchrun, without_local_ranks, by_options };

struct World {
  int ranks = 1;
  std::string words;       // the words of every rank
  std::string fault = {};  // as described in played_open.cpp
  Told told = Told::by_torchrun;
  std::map<int, std::string> own_words = {};  // more words for single ranks
  std::optional<int> hangs = {};
  std::optional<int> never_starts = {};
};

using Ended = std::vector<test::EndedProcess>;

Ended run_world(const std::string& program, const World& world) {
  constexpr std::chrono::seconds kPatience{100};
  const std::string size = std::to_string(world.ranks);
  const std::string port = std::to_string(test::free_port());
  std::vector<test::ProcessWords> all;
  for (int rank = 0; rank < world.ranks; ++rank) {
    if (rank == world.never_starts) continue;
    const std::string number = std::to_string(rank);
    std::string words = world.words;
    if (const auto own = world.own_words.find(rank); own != world.own_words.end()) words += " " + own->second;
    test::ProcessWords process{.arguments = {program}, .environment = {"SHARDPROOF_PLAYED=" + world.fault}};
    if (world.told == Told::by_options) {
      words += " --rank " + number + " --master-addr 127.0.0.1 --master-port " + port;
    } else {
      process.environment.insert(process.environment.end(), {"RANK=" + number, "WORLD_SIZE=" + size,
                                                             "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port});
    }
    if (world.told == Told::by_torchrun) {
      process.environment.push_back("LOCAL_RANK=" + number);
      process.environment.push_back("LOCAL_WORLD_SIZE=" + size);
    }
    std::istringstream stream(words);
    for (std::string word; stream >> word;) process.arguments.push_back(word);
    all.push_back(std::move(process));
  }
  const auto hung = world.hangs ? std::optional(static_cast<std::size_t>(*world.hangs)) : std::nullopt;
  return test::run_processes(all, kPatience, hung);
}

Ended run_ranks(const World& world) { return run_world(SHARDPROOF_NCCL_RANKS_PLAYED, world); }
Ended run_program(const World& world) { return run_world(SHARDPROOF_NCCL_PLAYED, world); }

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void expect_all_end(const Ended& ended, int exit_code) {
  for (std::size_t rank = 0; rank < ended.size(); ++rank)
    EXPECT_EQ(ended[rank].exit_code, exit_code) << "process " << rank << "\n"
                                                << ended[rank].out << ended[rank].err;
}

/// Only rank 0 prints in a world that ends well or with a verdict.
void expect_only_rank_0_speaks(const Ended& ended) {
  EXPECT_NE(ended.front().out, "");
  for (std::size_t rank = 1; rank < ended.size(); ++rank)
    EXPECT_EQ(ended[rank].out + ended[rank].err, "") << "rank " << rank;
}

/// The deadline in seconds for worlds in which a rank ends, hangs or never comes.
#ifdef SHARDPROOF_SANITIZED
constexpr int kShortDeadline =
    15;  // with a sanitizer, what a process proves before it meets the others takes longer
#else
constexpr int kShortDeadline = 3;
#endif

/// Returns the command that replays a small training, with the sizes that fit this number of ranks.
std::string replay(int ranks, const std::string& more = "") {
  static const std::map<int, std::string> sizes = {
      {2, " --world-size 2 --pipeline-model-parallel-size 1 --global-batch-size 4"},
      {4, " --world-size 4 --global-batch-size 4"},
      {8, ""}};
  return "replay scenarios/training/train_tp2_pp2_dp2.ini --backend nccl --ranks-per-gpu " +
         std::to_string(ranks) + sizes.at(ranks) + " --message-bytes 64" + more;
}

std::string with_a_gpu_each(int ranks) {
  std::string words = replay(ranks);
  words.replace(words.find("per-gpu ") + 8, 1, "1");
  return words;
}

void expect_verified(const Ended& ended) {
  expect_all_end(ended, 0);
  expect_only_rank_0_speaks(ended);
  for (const char* row : {"ok  nccl collectives", "ok  nccl training f32", "ok  nccl training bf16"})
    EXPECT_TRUE(contains(ended.front().out, row)) << ended.front().out;
  EXPECT_EQ(count_of(ended.front().out, "virtual ranks, bit for bit"), 3) << ended.front().out;
}

// ---- The programs of the ladder ----

TEST(NcclProcesses, RandomProgramsPublishWhatVirtualRanksPublish) {
  for (const auto& [ranks, seed] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 2}, {3, 6}, {4, 3}, {8, 4}, {18, 5}}) {
    const std::string of_gpu = std::to_string(ranks);
    const Ended ended =
        run_ranks({.ranks = ranks, .words = "calls " + of_gpu + " " + std::to_string(seed) + " 60"});
    expect_all_end(ended, 0);
    EXPECT_TRUE(contains(ended.front().out, " calls of rank 0")) << ended.front().out;
  }
}

TEST(NcclProcesses, TrainingIsThatOfVirtualRanks) {
  for (const int ranks : {1, 2, 4, 8})
    expect_all_end(run_ranks({.ranks = ranks, .words = "training " + std::to_string(ranks)}), 0);
}

TEST(NcclProcesses, TrainingWithExpertsIsThatOfVirtualRanks) {
  for (const char* mode : {"experts-allgather ", "experts-alltoall ", "experts-flex "}) {
    for (const int ranks : {2, 4, 8}) {
      SCOPED_TRACE(mode + std::to_string(ranks));
      expect_all_end(run_ranks({.ranks = ranks, .words = mode + std::to_string(ranks)}), 0);
    }
  }
}

TEST(NcclProcesses, TrainingWithContextParallelismIsThatOfVirtualRanks) {
  for (const auto& [ranks, mode] : std::vector<std::pair<int, std::string>>{
           {8, "context-p2p "}, {4, "context-all_gather "}, {4, "context-a2a "}, {8, "context-a2a+p2p "}}) {
    SCOPED_TRACE(mode + std::to_string(ranks));
    expect_all_end(run_ranks({.ranks = ranks, .words = mode + std::to_string(ranks)}), 0);
  }
}

TEST(NcclProcesses, SumsHaveTheOrderOfTheRing) {
  for (const int ranks : {2, 3})
    expect_all_end(run_ranks({.ranks = ranks, .words = "rings " + std::to_string(ranks) + " 0 4"}), 0);
}

// The first messages of two ranks make the ranks wait for each other, in the order in which each rank
// puts its messages. So the ranks must have met before.
TEST(NcclProcesses, MessagesThatCrossDoNotWaitForEachOther) {
  for (const int ranks : {2, 8})
    expect_all_end(run_ranks({.ranks = ranks, .words = "crossed " + std::to_string(ranks)}), 0);
}

TEST(NcclProcesses, WhatARanksProgramThrowsEndsAll) {
  const Ended ended = run_ranks({.ranks = 4, .words = "throws 4"});
  expect_all_end(ended, 3);
  EXPECT_TRUE(contains(ended[1].err, "rank 1: rank_threw: an exception left the program: planted"))
      << ended[1].err;
  for (const int rank : {0, 2, 3}) {
    const std::string& err = ended[static_cast<std::size_t>(rank)].err;
    EXPECT_TRUE(contains(err, "nccl_failed") && contains(err, "barrier 'throws.barrier'") &&
                contains(err, "rank 1"))
        << err;
  }
}

TEST(NcclProcesses, ARankThatDiesBeforeTheVerdictEndsAll) {
  const Ended ended = run_ranks({.ranks = 4, .words = "dies 4 1 10", .fault = "silent"});
  EXPECT_EQ(ended[1].exit_code, 9);
  for (const std::size_t rank : {0U, 2U, 3U}) {
    EXPECT_EQ(ended[rank].exit_code, 3) << ended[rank].err;
    EXPECT_TRUE(contains(ended[rank].err, "rendezvous_lost") && contains(ended[rank].err, "rank 1"))
        << ended[rank].err;
  }
}

// ---- The program ----

TEST(NcclProcesses, ReplayIsEqualOnTwoFourAndEight) {
#ifdef SHARDPROOF_SANITIZED
  const std::vector<int> worlds = {2};  // every process proves the scenario, which is thirty times slower
#else
  const std::vector<int> worlds = {2, 4, 8};
#endif
  for (const int ranks : worlds) expect_verified(run_program({.ranks = ranks, .words = replay(ranks)}));
}

// If local ranks are not given, they are counted by host. Otherwise two ranks would use one GPU.
TEST(NcclProcesses, HoweverRanksAreTold) {
#ifdef SHARDPROOF_SANITIZED
  constexpr int kRanks = 2;
#else
  constexpr int kRanks = 4;
#endif
  for (const Told told : {Told::by_torchrun, Told::without_local_ranks, Told::by_options}) {
    const Ended ended = run_program({.ranks = kRanks,
                                     .words = with_a_gpu_each(kRanks) + " --train-iters 0",
                                     .fault = "gpus 4",
                                     .told = told});
    expect_all_end(ended, 0);
    expect_only_rank_0_speaks(ended);
    EXPECT_TRUE(contains(ended.front().out, "ok  nccl collectives")) << ended.front().out;
  }
}

TEST(NcclProcesses, ReplayIsOneDocument) {
  const Ended ended = run_program({.ranks = 4, .words = replay(4, " --format json")});
  expect_all_end(ended, 0);
  expect_only_rank_0_speaks(ended);
  const auto document = nlohmann::json::parse(ended.front().out, nullptr, false);
  ASSERT_TRUE(document.is_object()) << ended.front().out;
  EXPECT_EQ(document["verdict"], "verified");
  const auto& checks = document["scenarios"][0]["checks"];
  const auto has = [&](const char* name) {
    return std::any_of(checks.begin(), checks.end(),
                       [&](const auto& check) { return check["check"] == name; });
  };
  for (const char* name :
       {"training", "nccl collectives", "nccl training f32", "nccl training bf16", "nccl bandwidth"})
    EXPECT_TRUE(has(name)) << name << "\n" << ended.front().out;
}

TEST(NcclProcesses, CheckIsEqual) {
  const Ended ended =
      run_program({.ranks = 4, .words = "check --backend nccl --ranks-per-gpu 4 --runs 2 --format json"});
  expect_all_end(ended, 0);
  expect_only_rank_0_speaks(ended);
  const auto document = nlohmann::json::parse(ended.front().out, nullptr, false);
  ASSERT_TRUE(document.is_object()) << ended.front().out;
  EXPECT_EQ(document["processes"], 4);
  EXPECT_GT(document["rows"].size(), 10U);
  for (const auto& row : document["rows"]) {
    EXPECT_TRUE(row["holds"].get<bool>() && row["to_the_bit"].get<bool>()) << row;
    EXPECT_EQ(row["runs"], 2);
  }
}

TEST(NcclProcesses, AnotherOrderOfSums) {
  const Ended any = run_program({.ranks = 4, .words = replay(4, " --nccl-order any"), .fault = "ring"});
  expect_all_end(any, 0);
  EXPECT_EQ(count_of(any.front().out, "virtual ranks, bit for bit"), 1)
      << any.front().out;  // only the results without rounding
  EXPECT_EQ(count_of(any.front().out, "within the bounds of the serial reference"), 1) << any.front().out;
  const Ended exact = run_program({.ranks = 4, .words = replay(4), .fault = "ring"});
  expect_all_end(exact, 3);
  EXPECT_TRUE(contains(exact.front().err, "rank 0: nccl_ring: ")) << exact.front().err;
}

// One rank sends a block from the place of another block. All processes end with 1, and rank 0 says
// which tensor of which rank is wrong.
TEST(NcclProcesses, AWrongOffsetIsFound) {
  const Ended replayed = run_program({.ranks = 4, .words = replay(4), .fault = "offset 3"});
  expect_all_end(replayed, 1);
  expect_only_rank_0_speaks(replayed);
  EXPECT_TRUE(contains(replayed.front().out, "FAILED  nccl collectives    rank 0: tensor 'step "))
      << replayed.front().out;
  EXPECT_TRUE(contains(replayed.front().out, "ok      nccl training f32")) << replayed.front().out;
  EXPECT_TRUE(contains(replayed.front().out, "reproduce: mpirun -n 4 " + std::string(SHARDPROOF_NCCL_PLAYED) +
                                                 " replay scenarios/"))
      << replayed.front().out;
}

TEST(NcclProcesses, ASharedGpuIsAskedFor) {
  expect_verified(run_program({.ranks = 2, .words = replay(2), .fault = "shares"}));
  for (const std::string fault : {"", "shares"}) {
    const Ended refused = run_program({.ranks = 2, .words = with_a_gpu_each(2), .fault = fault});
    expect_all_end(refused, 3);
    for (const auto& ended : refused)
      EXPECT_TRUE(contains(ended.err, "nccl_failed") && contains(ended.err, "making the world of 2") &&
                  contains(ended.err, "Duplicate GPU detected"))
          << ended.err;
  }
}

// ---- Ranks that end, hang, or never come ----

/// Expects every other rank to say which call it waits in. Each message contains `call`.
void expect_others_end(const Ended& ended, std::size_t gone, const std::string& code,
                       const std::string& call) {
  EXPECT_EQ(ended[gone].exit_code, 137) << ended[gone].out << ended[gone].err;
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    if (rank == gone) continue;
    const std::string name = "rank " + std::to_string(rank);
    EXPECT_EQ(ended[rank].exit_code, 3) << name << "\n" << ended[rank].err;
    EXPECT_TRUE(contains(ended[rank].err, name + ": " + code + ": " + name + " in call ") &&
                contains(ended[rank].err, call))
        << ended[rank].err;
  }
}

// The other ranks are in the call that the killed rank did not come to, or in an earlier one whose end
// they have not seen yet.
TEST(NcclProcesses, AKilledRankEndsTheOthersAtOnceWhereNcclSaysSo) {
  const Ended calls = run_program({.ranks = 4, .words = replay(4), .fault = "killed 2 200"});
  expect_others_end(calls, 2, "nccl_failed", "(verify/backends/random_calls.cpp:");
  std::string said;
  for (const auto& one : calls) said += one.err;
  EXPECT_TRUE(contains(said, "remote process exited or there was a network error: rank 2")) << said;
  const Ended training = run_program({.ranks = 4, .words = replay(4), .fault = "killed 2 300"});
  expect_others_end(training, 2, "nccl_failed", "(sim/");
}

// NCCL does not report the lost rank, so deadlines do. The worlds run at the same time.
TEST(NcclProcesses, WhateverHappensToARankTheOthersEndInTime) {
  const auto beside = [](auto run, World world) {
    return std::async(std::launch::async, run, std::move(world));
  };
  // There is no model, so what each process proves by itself before they meet takes no time.
  const std::string words =
      "replay --world-size 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --backend nccl "
      "--ranks-per-gpu 4 --train-iters 0 --message-bytes 64 --deadline " +
      std::to_string(kShortDeadline);
  auto killed = beside(run_program, {.ranks = 4, .words = words, .fault = "killed 0 160 silent"});
  auto hangs = beside(run_program, {.ranks = 4, .words = words, .fault = "hangs 2 200 silent", .hangs = 2});
  auto absent = beside(run_program, {.ranks = 4, .words = words, .never_starts = 2});
  auto late = beside(run_ranks, {.ranks = 4, .words = "late 4", .fault = "silent"});
  expect_others_end(killed.get(), 0, "nccl_deadline", "(verify/backends/random_calls.cpp:");
  const Ended hung = hangs.get();
  expect_others_end(hung, 2, "nccl_deadline", "[0] = {0, 1, 2, 3}, ");
  expect_others_end(hung, 2, "nccl_deadline", "' (verify/backends/random_calls.cpp:");
  EXPECT_TRUE(contains(hung.front().err, "not over after " + std::to_string(kShortDeadline) + "000 ms"))
      << hung.front().err;
  const Ended without_one = absent.get();
  expect_all_end(without_one, 2);
  for (const auto& one : without_one)
    EXPECT_TRUE(
        contains(one.err, "rendezvous_missing") &&
        contains(one.err, "rank 2 did not come by the deadline of " + std::to_string(kShortDeadline) + " s"))
        << one.err;
  const Ended stayed_away = late.get();
  expect_all_end(stayed_away, 3);
  for (const std::size_t rank : {1U, 2U, 3U}) {
    const std::string name = "rank " + std::to_string(rank);
    EXPECT_TRUE(contains(
        stayed_away[rank].err,
        name + ": nccl_deadline: " + name + " in call 0 of world[0] = {0, 1, 2, 3}, barrier 'late.barrier'"))
        << stayed_away[rank].err;
  }
}

// ---- what flight recorders would have kept

std::string written_to(const test::Folder& folder) { return " --flight-recorder " + folder.path().string(); }

nlohmann::json inspected(const test::Folder& folder) {
  const Ended ended = run_program({.ranks = 1, .words = "inspect --format json " + folder.path().string()});
  return nlohmann::json::parse(ended.front().out);
}

std::int64_t files_in(const test::Folder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()),
                       std::filesystem::directory_iterator());
}

TEST(NcclProcesses, EachWritesTheDumpOfItsRank) {
  const test::Folder folder("dumps_of_nccl");
  expect_verified(run_program({.ranks = 4, .words = replay(4, written_to(folder))}));
  EXPECT_EQ(files_in(folder), 4);
  const nlohmann::json result = inspected(folder);
  EXPECT_TRUE(result["verdict"].get<std::string>().starts_with("Nothing was found")) << result["verdict"];
  EXPECT_EQ(result["layout"]["tp"], 2);
  EXPECT_EQ(result["layout"]["pp"], 2);
}

/// Rank 2 hangs and writes nothing. The others reach their deadlines, and say in their dumps for whom they
/// wait.
TEST(NcclProcesses, TheDumpsOfAHangNameTheRankThatHangs) {
  const test::Folder folder("dumps_of_a_hang");
  const std::string words =
      "replay --world-size 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --backend nccl "
      "--ranks-per-gpu 4 --train-iters 0 --message-bytes 64 --deadline " +
      std::to_string(kShortDeadline) + written_to(folder);
  run_program({.ranks = 4, .words = words, .fault = "hangs 2 200 silent", .hangs = 2});
  EXPECT_EQ(files_in(folder), 3);
  const nlohmann::json result = inspected(folder);
  ASSERT_EQ(result["suspects"].size(), 1U) << result.dump(1);
  EXPECT_EQ(result["suspects"][0]["rank"], 2);
  EXPECT_EQ(result["suspects"][0]["kind"], "absent");
}

TEST(NcclProcesses, RanksWithOtherOptionsAreRefused) {
  const Ended ended = run_program({.ranks = 4, .words = replay(4), .own_words = {{2, "--nccl-order any"}}});
  expect_all_end(ended, 2);
  for (const auto& one : ended)
    EXPECT_TRUE(contains(one.err, "rendezvous_configuration") && contains(one.err, "rank 2 with version"))
        << one.err;
}

}  // namespace
