// Proves that a written dump says what the run did, in the bytes that PyTorch's own pickler writes, the same
// in both formats, and the same for every schedule and number of threads.

#include "verify/recordings/dump_writer.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/layout/layout.h"
#include "sim/tensor/counting_device.h"
#include "sim/tensor/ops.h"
#include "sim/world/run_timeline.h"
#include "sim/world/simulate.h"
#include "tests/support/mpi.h"
#include "tests/support/run.h"
#include "tests/verify/recordings/folder.h"
#include "tests/verify/recordings/unpickled.h"
#include "verify/checks/planted_programs.h"
#include "verify/recordings/run_dump_writer.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using sim::Communicator;
using sim::Rank;
using sim::ReduceOp;
using sim::Tensor;
using verify::DumpFormat;
using verify::RankDump;

/// Returns the contents of the files that a replay writes, by name.
std::map<std::string, std::string> recorded(const std::string& options, int exit_code = 0) {
  const test::Folder folder("shardproof-dumps");
  const test::RunResult result =
      test::run("replay " + options + " --flight-recorder '" + folder.path().string() + "'");
  EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    files[entry.path().filename().string()] = test::content_of(entry.path());
  return files;
}

struct Recorded {
  sim::RunReport run;
  std::vector<RankDump> dumps;
};

Recorded recorded_run(const sim::WorldSpec& spec, const sim::RankProgram& program,
                      std::int64_t most_calls = verify::kDumpedCalls) {
  sim::CpuDevice cpu;
  sim::CountingDevice device(cpu);
  Recorded result{sim::simulate(spec, device, program), {}};
  const sim::RunTimeline timeline = sim::run_timeline(result.run);
  verify::RunDumpWriter writer(spec.layout, result.run, timeline, most_calls);
  for (std::size_t rank = 0; rank < writer.size(); ++rank) result.dumps.push_back(writer.dump_of(rank));
  return result;
}

Json json_of(const RankDump& dump) { return test::unpickled(text_of(dump, DumpFormat::pickle)); }

// ---- the bytes

/// Writes a value that unpickled() has read.
void write(verify::PickleWriter& to, const Json& value) {
  if (value.is_object() && value.contains("pair")) {
    write(to, value["pair"][0]);
    write(to, value["pair"][1]);
    return to.end_pair();
  }
  if (value.is_object()) {
    to.begin_dict();
    for (const auto& [name, element] : value.items()) {
      to.text(name);
      write(to, element);
    }
    return to.end_dict();
  }
  if (value.is_array()) {
    to.begin_list();
    for (const Json& element : value) write(to, element);
    return to.end_list();
  }
  if (value.is_string()) return to.text(value.get<std::string>());
  if (value.is_boolean()) return to.flag(value.get<bool>());
  if (value.is_number_float()) return to.real(value.get<double>());
  if (value.is_number()) return to.number(value.get<std::int64_t>());
  to.none();
}

TEST(PickleWriter, WritesTheBytesOfPyTorchsOwnPickler) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator("tests/verify/inspect/gloo")) {
    if (!entry.is_regular_file() || !entry.path().filename().string().starts_with("gloo_rank_")) continue;
    std::string original = test::content_of(entry.path());
    verify::PickleWriter writer;
    write(writer, test::unpickled(original));
    // There PyTorch also puts the whole dict into the memo, at the end, because it holds it elsewhere too.
    ASSERT_EQ(original[original.size() - 3], 'q');
    original.erase(original.size() - 3, 2);
    EXPECT_TRUE(writer.finish() == original) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 16);
}

TEST(PickleWriter, NumbersAndTextsOfEverySizeAreReadBack) {
  verify::PickleWriter writer;
  const std::vector<std::int64_t> numbers = {0,         255,        256,         65535,        65536,
                                             -1,        2147483647, -2147483648, 2147483648LL, -2147483649LL,
                                             INT64_MAX, INT64_MIN};
  writer.begin_list();
  for (const std::int64_t number : numbers) writer.number(number);
  writer.real(-0.25);
  for (int round = 0; round < 2; ++round) {
    for (int text = 0; text < 300; ++text) writer.text("text " + std::to_string(text));
  }
  writer.end_list();
  const std::string bytes = writer.finish();
  const Json value = test::unpickled(bytes);
  ASSERT_EQ(value.size(), numbers.size() + 1 + 600);
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(value[i].get<std::int64_t>(), numbers[i]);
  EXPECT_EQ(value[numbers.size()], -0.25);
  for (std::size_t i = 0; i < 600; ++i)
    EXPECT_EQ(value[numbers.size() + 1 + i], "text " + std::to_string(i % 300));
  // BININT1 0, BININT1 255, BININT2 256, BININT2 65535, BININT 65536, BININT -1
  EXPECT_TRUE(bytes.starts_with(
      std::string("\x80\x02](K\x00K\xffM\x00\x01M\xff\xffJ\x00\x00\x01\x00J\xff\xff\xff\xff", 24)));
}

/// Replaces what differs between the formats: times that are absent, numbers of pg_status, and pairs.
Json as_in_json(Json dump) {
  for (auto& [number, status] : dump["pg_status"].items()) {
    for (auto& [name, value] : status.items()) value = std::to_string(value.get<std::int64_t>());
  }
  for (Json& entry : dump["entries"]) {
    for (const char* time : {"time_discovered_started_ns", "time_discovered_completed_ns"}) {
      if (entry[time].is_null()) entry[time] = 0;
    }
    Json pair = entry["process_group"]["pair"];
    entry["process_group"] = std::move(pair);
  }
  if (dump["entries"].empty()) dump.erase("entries");
  return dump;
}

TEST(DumpWriter, BothFormatsHoldTheSameValues) {
  int entries = 0;
  for (const verify::PlantedProgram& program : verify::planted_programs()) {
    for (const RankDump& dump : recorded_run(sim::world_of(3), program.run).dumps) {
      const Json json = Json::parse(text_of(dump, DumpFormat::json));
      EXPECT_EQ(as_in_json(json_of(dump)).dump(), json.dump()) << program.name;
      entries += json.contains("entries") ? static_cast<int>(json["entries"].size()) : 0;
    }
  }
  EXPECT_GT(entries, 50);
}

// ---- what the run did

/// Makes each call once, in the group of all ranks.
void all_operations(Rank& rank) {
  Communicator& world = rank.groups.world();
  const int n = world.size(), place = world.rank();
  const auto ones = [&](std::int64_t count, sim::DType dtype = sim::DType::f32) {
    return sim::filled(rank.device, dtype, {count}, 1);
  };
  world.all_reduce(ones(6), ReduceOp::sum, "all.all_reduce");
  world.reduce_scatter(ones(n * 5, sim::DType::bf16), ones(5, sim::DType::bf16), ReduceOp::sum,
                       "all.reduce_scatter");
  world.all_gather(ones(4, sim::DType::i32), ones(n * 4, sim::DType::i32), "all.all_gather");
  world.broadcast(ones(3, sim::DType::f64), 1, "all.broadcast");
  world.reduce(ones(2), ReduceOp::sum, 0, "all.reduce");
  world.gather(ones(7), place == 1 ? ones(n * 7) : Tensor(), 1, "all.gather");
  world.scatter(place == 1 ? ones(n * 8) : Tensor(), ones(8), 1, "all.scatter");
  world.all_to_all(ones(n * 9), ones(n * 9), "all.all_to_all");
  const std::vector<std::int64_t> rows(static_cast<std::size_t>(n), 1);
  world.all_to_all_uneven(ones(n), rows, ones(n), rows, "all.all_to_all_uneven");
  static_cast<void>(world.split(0, 0, "all.split"));
  if (place == 0) world.send(ones(11), 1, "all.send");
  if (place == 1) world.recv(ones(11), 0, "all.recv");
  world.barrier("all.barrier");
}

TEST(DumpWriter, EveryCallIsAnEntryWithItsNameSizesAndDtypes) {
  const std::vector<std::string> expected = {
      "nccl:all_reduce 1 0 [[6]] [\"Float\"] [[6]] [\"Float\"]",
      "nccl:_reduce_scatter_base 2 0 [[15]] [\"BFloat16\"] [[5]] [\"BFloat16\"]",
      "nccl:_all_gather_base 3 0 [[4]] [\"Int\"] [[12]] [\"Int\"]",
      "nccl:broadcast 4 0 [[3]] [\"Double\"] [[3]] [\"Double\"]",
      "nccl:reduce 5 0 [[2]] [\"Float\"] [[2]] [\"Float\"]",
      "nccl:gather 6 0 [[7]] [\"Float\"] [[7],[7],[7]] [\"Float\",\"Float\",\"Float\"]",
      "nccl:scatter 7 0 [[8],[8],[8]] [\"Float\",\"Float\",\"Float\"] [[8]] [\"Float\"]",
      "nccl:all_to_all 8 0 [[27]] [\"Float\"] [[27]] [\"Float\"]",
      "nccl:all_to_all 9 0 [[3]] [\"Float\"] [[3]] [\"Float\"]",
      "nccl:recv 1<-0 9 1 [[11]] [\"Float\"] [[11]] [\"Float\"]",
      "nccl:all_reduce_barrier 10 1 [[1]] [\"Float\"] [[1]] [\"Float\"]"};
  const Recorded recorded = recorded_run(sim::world_of(3), all_operations);
  ASSERT_TRUE(recorded.run.ok()) << recorded.run.failure();
  const Json dump = json_of(recorded.dumps[1]);
  ASSERT_EQ(dump["entries"].size(), expected.size());
  std::int64_t before = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Json& entry = dump["entries"][i];
    std::ostringstream text;
    text << entry["profiling_name"].get<std::string>() << ' ' << entry["collective_seq_id"] << ' '
         << entry["p2p_seq_id"] << ' ' << entry["input_sizes"] << ' ' << entry["input_dtypes"] << ' '
         << entry["output_sizes"] << ' ' << entry["output_dtypes"];
    EXPECT_EQ(text.str(), expected[i]);
    EXPECT_EQ(entry["record_id"], i);
    EXPECT_EQ(entry["op_id"], entry["collective_seq_id"].get<int>() + entry["p2p_seq_id"].get<int>());
    EXPECT_EQ(entry["state"], "completed");
    EXPECT_EQ(entry["retired"], true);
    EXPECT_EQ(entry["is_p2p"], i == 9);
    EXPECT_EQ(entry["process_group"]["pair"], Json::array({"0", "default_pg"}));
    EXPECT_TRUE(entry["frames"][0]["name"].get<std::string>().starts_with("all."));
    EXPECT_EQ(entry["frames"][0]["filename"], "tests/verify/recordings/dump_writer_test.cpp");
    EXPECT_LE(before, entry["time_created_ns"].get<std::int64_t>());
    EXPECT_LE(entry["time_created_ns"], entry["time_discovered_started_ns"]);
    EXPECT_LT(entry["time_discovered_started_ns"], entry["time_discovered_completed_ns"]);
    before = entry["time_discovered_completed_ns"];
  }
  EXPECT_EQ(json_of(recorded.dumps[0])["entries"][9]["profiling_name"], "nccl:send 0->1");
  EXPECT_EQ(json_of(recorded.dumps[0])["entries"][5]["output_sizes"].dump(), "[[0]]")
      << "no root of the gather";
  EXPECT_EQ(json_of(recorded.dumps[0])["entries"][6]["input_dtypes"].dump(), "[\"Undefined\"]");
  EXPECT_EQ(dump["version"], "2.10");
  EXPECT_EQ(dump["pg_status"].dump(),
            "{\"0\":{\"last_enqueued_collective\":10,\"last_started_collective\":10,"
            "\"last_completed_collective\":10}}");
}

/// The groups of rank 9 and 0 of a real Megatron job, with the rank's own numbers of them, from its dumps:
/// world 16, tp 2, pp 4, ep 4, etp 1.
TEST(DumpWriter, GroupsHaveTheNumbersAndNamesOfARealMegatronJob) {
  const std::vector<std::string> kinds = {"dp-cp", "mp", "tp",    "pp",       "embd", "tp-dp-cp",
                                          "tp-cp", "ep", "tp-ep", "tp-ep-pp", "edp",  "intra-dist-opt"};
  const std::string all = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]";
  const std::map<int, std::vector<std::vector<std::string>>> expected = {
      {0,
       {{"0", "0", "default_pg", all},
        {"1", "1", "DATA_PARALLEL_GROUP_WITH_CP", "[0, 2]"},
        {"4", "33", "MODEL_PARALLEL_GROUP", "[0, 1, 4, 5, 8, 9, 12, 13]"},
        {"5", "35", "TENSOR_MODEL_PARALLEL_GROUP", "[0, 1]"},
        {"6", "43", "PIPELINE_MODEL_PARALLEL_GROUP", "[0, 4, 8, 12]"},
        {"7", "44", "EMBEDDING_GROUP", "[0, 12]"},
        {"9", "55", "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", "[0, 1, 2, 3]"},
        {"11", "63", "TENSOR_AND_CONTEXT_PARALLEL_GROUP", "[0, 1]"},
        {"12", "71", "EXPERT_MODEL_PARALLEL_GROUP", "[0, 1, 2, 3]"},
        {"14", "91", "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "[0, 1, 2, 3]"},
        {"15", "95", "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", all},
        {"16", "96", "EXPERT_DATA_PARALLEL_GROUP", "[0]"},
        {"17", "112", "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", all}}},
      {9,
       {{"0", "0", "default_pg", all},
        {"1", "6", "DATA_PARALLEL_GROUP_WITH_CP", "[9, 11]"},
        {"4", "33", "MODEL_PARALLEL_GROUP", "[0, 1, 4, 5, 8, 9, 12, 13]"},
        {"5", "39", "TENSOR_MODEL_PARALLEL_GROUP", "[8, 9]"},
        {"6", "46", "PIPELINE_MODEL_PARALLEL_GROUP", "[1, 5, 9, 13]"},
        {"7", "57", "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", "[8, 9, 10, 11]"},
        {"9", "67", "TENSOR_AND_CONTEXT_PARALLEL_GROUP", "[8, 9]"},
        {"10", "73", "EXPERT_MODEL_PARALLEL_GROUP", "[8, 9, 10, 11]"},
        {"12", "93", "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "[8, 9, 10, 11]"},
        {"13", "95", "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", all},
        {"14", "105", "EXPERT_DATA_PARALLEL_GROUP", "[9]"},
        {"15", "112", "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", all}}}};
  sim::WorldSpec spec = sim::world_of(16);
  spec.layout = sim::make_layout({.world_size = 16,
                                  .tensor_model_parallel_size = 2,
                                  .pipeline_model_parallel_size = 4,
                                  .expert_model_parallel_size = 4,
                                  .expert_tensor_parallel_size = 1},
                                 sim::RuleBook::megatron);
  const Recorded recorded = recorded_run(spec, [&](Rank& rank) {
    for (const std::string& kind : kinds) {
      if (Communicator* group = rank.groups.find(kind)) group->barrier("groups.barrier");
    }
  });
  ASSERT_TRUE(recorded.run.ok()) << recorded.run.failure();
  for (const auto& [rank, groups] : expected) {
    const Json dump = json_of(recorded.dumps[static_cast<std::size_t>(rank)]);
    std::vector<std::vector<std::string>> found;
    auto status = dump["pg_status"].begin();
    for (const auto& [name, group] : dump["pg_config"].items()) {
      EXPECT_EQ(group["name"], name);
      found.push_back({status.key(), name, group["desc"], group["ranks"]});
      ++status;
    }
    EXPECT_EQ(found, groups) << "rank " << rank;
  }
}

// ---- runs that hang

/// Returns the last entry that is not completed; null if there is none.
Json pending(const Json& dump) {
  Json last;
  for (const Json& entry : dump["entries"]) {
    if (entry["state"] != "completed") last = entry;
  }
  return last;
}

/// A rank that the diagnosis says to wait has the call in which it waits as its last entry. new_group and
/// split are calls that no flight recorder records.
TEST(DumpWriter, RanksThatWaitHaveTheirCallPendingAsTheDiagnosisSays) {
  int waiting = 0;
  for (const verify::PlantedProgram& program : verify::planted_programs()) {
    const Recorded recorded = recorded_run(sim::world_of(4), program.run);
    if (recorded.run.findings.empty()) continue;
    for (const sim::CallFacts& call : recorded.run.findings.front().calls) {
      const bool waits = call.state.starts_with("waits in") || call.state.starts_with("arrived at");
      if (!waits || call.operation == sim::Operation::new_group || call.operation == sim::Operation::split)
        continue;
      const Json dump = json_of(recorded.dumps[static_cast<std::size_t>(call.rank)]);
      const Json entry = pending(dump);
      ASSERT_FALSE(entry.is_null()) << program.name << ", rank " << call.rank;
      EXPECT_EQ(entry, dump["entries"].back());
      EXPECT_EQ(entry["state"], "started");
      EXPECT_EQ(entry["retired"], false);
      EXPECT_TRUE(entry["time_discovered_completed_ns"].is_null());
      EXPECT_EQ(entry["frames"][0]["name"], call.site);
      EXPECT_EQ(entry["frames"][0]["line"], call.line);
      ++waiting;
    }
  }
  EXPECT_GT(waiting, 20);
}

TEST(DumpWriter, ARankThatStopsHasFewerCallsAndTheOthersWaitForTheNext) {
  const Recorded recorded = recorded_run(sim::world_of(4), verify::planted_program("leaves_early")->run);
  for (const RankDump& rank : recorded.dumps) {
    const Json dump = json_of(rank);
    const bool stopped = rank.rank == 1;
    EXPECT_EQ(dump["entries"].size(), stopped ? 2U : 3U);
    EXPECT_EQ(pending(dump).is_null(), stopped);
    EXPECT_EQ(dump["pg_status"]["0"]["last_enqueued_collective"], stopped ? 2 : 3);
    EXPECT_EQ(dump["pg_status"]["0"]["last_started_collective"], stopped ? 2 : 3);
    EXPECT_EQ(dump["pg_status"]["0"]["last_completed_collective"], 2);
  }
}

TEST(DumpWriter, ACallBehindAPendingOneIsScheduled) {
  const auto program = [](Rank& rank) {
    Communicator& world = rank.groups.world();
    if (world.rank() == 1) return;
    const Tensor x = sim::filled(rank.device, sim::DType::f32, {4}, 1);
    const Tensor y = sim::filled(rank.device, sim::DType::f32, {4}, 1);
    sim::Work first = world.start_all_reduce(x, ReduceOp::sum, "behind.first");
    sim::Work second = world.start_all_reduce(y, ReduceOp::sum, "behind.second");
    first.wait();
    second.wait();
  };
  const Json dump = json_of(recorded_run(sim::world_of(3), program).dumps[0]);
  ASSERT_EQ(dump["entries"].size(), 2U);
  EXPECT_EQ(dump["entries"][0]["state"], "started");
  EXPECT_EQ(dump["entries"][1]["state"], "scheduled");
  EXPECT_TRUE(dump["entries"][1]["time_discovered_started_ns"].is_null());
  EXPECT_EQ(
      dump["pg_status"]["0"].dump(),
      "{\"last_enqueued_collective\":2,\"last_started_collective\":1,\"last_completed_collective\":-1}");
}

// ---- the files of a replay

TEST(FlightRecorder, EachRankOfATrainingHasAFileWithTheCallsOfTheTrace) {
  const std::string run =
      "--world-size 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --train-iters 2";
  const auto files = recorded(run);
  EXPECT_EQ(files.size(), 8U);
  const Json dump = test::unpickled(files.at("nccl_trace_rank_5"));
  std::set<std::string> described;
  for (const auto& [name, group] : dump["pg_config"].items())
    described.insert(group["desc"].get<std::string>());
  EXPECT_TRUE(described.contains("TENSOR_MODEL_PARALLEL_GROUP"));
  EXPECT_TRUE(described.contains("PIPELINE_MODEL_PARALLEL_GROUP"));
  std::map<std::string, std::int64_t> last;  // the last number in each group
  for (const Json& entry : dump["entries"]) {
    EXPECT_EQ(entry["state"], "completed");
    const std::string group = entry["process_group"]["pair"][0];
    const std::int64_t number = entry["op_id"];
    EXPECT_EQ(number, last[group] + 1) << "no call is left out";
    last[group] = number;
  }
  const auto short_files = recorded(run + " --flight-recorder-entries 3");
  const Json kept = test::unpickled(short_files.at("nccl_trace_rank_5"));
  ASSERT_EQ(kept["entries"].size(), 3U);
  EXPECT_EQ(kept["entries"][2], dump["entries"].back());
  EXPECT_EQ(kept["pg_status"], dump["pg_status"]);
}

TEST(FlightRecorder, TheFilesAreTheSameForEveryScheduleAndNumberOfThreads) {
  for (const auto& [run, exit_code] : std::vector<std::pair<std::string, int>>{
           {"--world-size 4 --program crossed_groups", 3},
           {"--world-size 4 --tensor-model-parallel-size 2 --train-iters 2", 0}}) {
    const auto first = recorded(run, exit_code);
    EXPECT_EQ(first.size(), 4U);
    for (const char* how : {"--threads 3", "--schedule uniform --schedule-seed 5", "--ranks-as threads"})
      EXPECT_TRUE(recorded(run + " " + how, exit_code) == first) << run << " " << how;
  }
}

/// Times are left out: a process counts its calls, and knows no time that it shares with others.
Json calls_without_times(const std::string& pickle) {
  Json calls = test::unpickled(pickle)["entries"];
  for (Json& call : calls) {
    for (const char* field :
         {"time_created_ns", "duration_ms", "time_discovered_started_ns", "time_discovered_completed_ns"})
      call.erase(field);
  }
  return calls;
}

TEST(FlightRecorder, AProcessOverMpiWritesTheCallsOfItsVirtualRank) {
  if (const std::string why = test::no_processes(); !why.empty()) GTEST_SKIP() << why;
  const std::string run = "--world-size 4 --tensor-model-parallel-size 2 --train-iters 2";
  const test::Folder folder("shardproof-mpi-dumps");
  const test::RunResult result = test::run_under_mpi(
      4, std::string("'") + SHARDPROOF_BINARY_DIR + "'/shardproof replay --backend mpi " + run +
             " --message-bytes 64 --flight-recorder '" + folder.path().string() + "'");
  ASSERT_EQ(result.exit_code, 0) << result.out;
  const auto virtual_ranks = recorded(run);
  for (const auto& [name, pickle] : virtual_ranks) {
    const std::string written = test::content_of(folder.path() / name);
    const Json calls = calls_without_times(written);
    ASSERT_GT(calls.size(), 10U) << name;
    EXPECT_EQ(calls, calls_without_times(pickle)) << name;
    EXPECT_EQ(test::unpickled(written)["pg_config"], test::unpickled(pickle)["pg_config"]) << name;
  }
  const test::RunResult inspected = test::run("inspect '" + folder.path().string() + "'");
  EXPECT_EQ(inspected.exit_code, 0) << inspected.out;
}

TEST(FlightRecorder, JsonFilesHaveTheirEnding) {
  const auto files = recorded("--world-size 2 --program well_behaved --flight-recorder-format json");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(Json::parse(files.at("nccl_trace_rank_1.json"))["entries"].size(), 2U);
}

TEST(FlightRecorder, AFolderWithFilesIsRefusedAndKept) {
  const test::Folder folder("shardproof-dumps");
  fs::create_directory(folder.path());
  std::ofstream(folder.path() / "nccl_trace_rank_7") << "of another job";
  const test::RunResult result = test::run(
      "replay --world-size 2 --program well_behaved --flight-recorder '" + folder.path().string() + "'");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE((result.out + result.err).find("flight_recorder_folder"), std::string::npos) << result.err;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  EXPECT_EQ(test::content_of(folder.path() / "nccl_trace_rank_7"), "of another job");
}

}  // namespace
