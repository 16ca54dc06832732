// Proves that the trace of a replay obeys the Chrome trace event format, has every call of every rank,
// and has the same bytes for every schedule, number of threads and kind of context.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>

#include "sim/cpu/cpu_device.h"
#include "sim/tensor/counting_device.h"
#include "tests/support/run.h"
#include "verify/report/replay_forms.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using verify::ScenarioReport;
using verify::trace_json;

/// Returns the text of the trace that a replay writes. Nothing may be left beside the file.
std::string traced(const std::string& options, int exit_code = 0) {
  const fs::path folder = fs::path(testing::TempDir()) / ("shardproof-trace-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string path = (folder / "trace.json").string();
  const test::RunResult result = test::run("replay " + options + " --trace '" + path + "'");
  EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  fs::remove_all(folder);
  return text.str();
}

bool is_time(const Json& event, const char* name) {
  return event.contains(name) && event[name].is_number_integer() && event[name].get<std::int64_t>() >= 0;
}

using Thread = std::pair<std::int64_t, std::int64_t>;

Thread thread_of(const Json& event) {
  return {event["pid"].get<std::int64_t>(), event["tid"].get<std::int64_t>()};
}

bool is_inside(const Json& arrow, const std::vector<Json>& slices) {
  const auto time = arrow["ts"].get<std::int64_t>();
  return std::any_of(slices.begin(), slices.end(), [&](const Json& slice) {
    const auto begin = slice["ts"].get<std::int64_t>();
    return slice["cat"] == "point_to_point" && begin <= time &&
           time <= std::max(begin, begin + slice["dur"].get<std::int64_t>() - 1);
  });
}

/// Returns the first thing that a viewer of the format would reject, or "". Slices of a thread must
/// follow one another.
std::string malformation(const Json& trace) {
  if (!trace.is_object() || !trace["traceEvents"].is_array()) return "no object with traceEvents";
  std::map<Thread, std::string> threads;
  std::map<std::int64_t, std::string> processes;
  std::set<std::string> sorted;
  std::map<Thread, std::vector<Json>> slices;
  std::map<std::int64_t, std::vector<Json>> arrows;
  for (const Json& event : trace["traceEvents"]) {
    const std::string phase = event.value("ph", "");
    if (!event.contains("pid") || !event["pid"].is_number_integer()) return "an event without process";
    if (!event.contains("name") || !event["name"].is_string()) return "an event without name";
    if (phase == "M") {
      const std::string name = event["name"];
      if (name == "process_name" && !processes.emplace(event["pid"], event["args"]["name"]).second)
        return "a process with two names";
      if (name == "thread_name" && !threads.emplace(thread_of(event), event["args"]["name"]).second)
        return "a thread with two names";
      if (name.ends_with("_sort_index") && !event["args"]["sort_index"].is_number_integer())
        return "a sort index that is no number";
      if (name == "thread_sort_index") sorted.insert(event["tid"].dump());
      continue;
    }
    if (!is_time(event, "ts")) return "an event without time";
    if (!event.contains("cat")) return "an event without category";
    if (phase == "X") {
      if (!is_time(event, "dur")) return "a slice without duration";
      if (!event["args"].is_object()) return "a slice without args";
      slices[thread_of(event)].push_back(event);
    } else if (phase == "s" || phase == "f") {
      arrows[event["id"].get<std::int64_t>()].push_back(event);
    } else {
      return "an event of phase '" + phase + "'";
    }
  }
  for (const auto& [thread, events] : slices) {
    if (!threads.contains(thread) || !processes.contains(thread.first))
      return "a slice of a thread without name";
    if (!sorted.contains(std::to_string(thread.second))) return "a thread without sort index";
    std::int64_t end = 0;
    for (const Json& slice : events) {
      if (slice["ts"].get<std::int64_t>() < end) return "slices of a thread overlap";
      end = slice["ts"].get<std::int64_t>() + slice["dur"].get<std::int64_t>();
    }
  }
  for (const auto& [id, ends] : arrows) {
    if (ends.size() != 2 || ends[0]["ph"] != "s" || ends[1]["ph"] != "f" || ends[1]["bp"] != "e")
      return "an arrow without two ends";
    if (ends[1]["ts"] < ends[0]["ts"]) return "an arrow back in time";
    for (const Json& end : ends) {
      if (!is_inside(end, slices[thread_of(end)])) return "an arrow that is tied to no message";
    }
  }
  return "";
}

std::map<std::string, std::int64_t> calls_by_site(const Json& trace) {
  std::map<std::string, std::int64_t> calls;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && (event["cat"] == "collective" || event["cat"] == "point_to_point"))
      ++calls[event["args"]["group"].get<std::string>() + " " + event["args"]["site"].get<std::string>()];
  }
  return calls;
}

std::vector<std::string> names(const Json& trace, const std::string& kind) {
  std::vector<std::string> all;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == kind) all.push_back(event["args"]["name"]);
  }
  return all;
}

ScenarioReport report_of(const sim::WorldSpec& spec, const sim::RankProgram& program) {
  sim::CpuDevice cpu;
  sim::CountingDevice device(cpu);
  ScenarioReport report;
  report.trace = verify::traced_run("a program", spec, sim::simulate(spec, device, program), device);
  return report;
}

const std::string kSmall =
    "--world-size 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --train-iters 3";

TEST(Trace, ATrainingIsThereWithRanksStagesCallsAndMessages) {
  const std::string text = traced(kSmall);
  const Json trace = Json::parse(text);
  EXPECT_EQ(malformation(trace), "");
  EXPECT_EQ(names(trace, "process_name"), (std::vector<std::string>{"command line: pipeline rank 0 of 2",
                                                                    "command line: pipeline rank 1 of 2"}));
  const std::vector<std::string> threads = names(trace, "thread_name");
  EXPECT_EQ(threads.front(), "rank 0 (tp 0, pp 0, dp 0)");
  for (const char* rank :
       {"rank 5 (tp 1, pp 1, dp 0)", "rank 2 (tp 0, pp 0, dp 1)", "rank 2 (tp 0, pp 0, dp 1), started calls"})
    EXPECT_EQ(std::count(threads.begin(), threads.end(), rank), 1) << rank;
  const Json& said = trace["otherData"]["scenarios"][0];
  EXPECT_EQ(said["shows"], "training steps 1 to 2 of 3, in f32 at tp 2, pp 2, dp 2");
  EXPECT_EQ(said["ranks"], 8);
  EXPECT_EQ(said["ranks_written"], 8);
  // Each step has two microbatches. The tokens and labels of each are sent by one broadcast on the
  // stages that need them.
  EXPECT_EQ(calls_by_site(trace).at("tp[0] = {0, 1} vocab_parallel_embedding.forward"), 2 * 2 * 2);
  std::map<std::string, int> phases;
  for (const Json& event : trace["traceEvents"]) ++phases[event["ph"]];
  EXPECT_EQ(phases["s"], 2 * 2 * 2 * 4);  // steps, microbatches, both directions, pairs of stages
  EXPECT_EQ(phases["f"], phases["s"]);
}

// A slice of a layer knows its layer, microbatch and direction; what is between the passes has none of them.
TEST(Trace, SlicesSayLayerMicrobatchAndDirection) {
  const Json trace = Json::parse(traced(kSmall));
  std::map<std::string, std::int64_t> computes;  // by direction, microbatch and layer, of rank 0
  std::int64_t outside = 0, calls_in_a_layer = 0, messages_in_a_pass = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const Json& args = event["args"];
    const bool has_pass = args.contains("pass");
    EXPECT_EQ(has_pass, args.contains("microbatch")) << event;
    if (event["cat"] == "collective" && args.contains("layer")) ++calls_in_a_layer;
    if (event["cat"] == "point_to_point" && has_pass) ++messages_in_a_pass;
    if (event["cat"] != "compute") continue;
    if (!has_pass) {
      ++outside;
    } else if (args["rank"] == 0 && args.contains("layer")) {
      computes[args["pass"].get<std::string>() + " " + args["microbatch"].dump() + " of layer " +
               args["layer"].dump()] += event["dur"].get<std::int64_t>();
    }
  }
  const std::set<std::string> expected = {"forward 0 of layer 0", "forward 1 of layer 0",
                                          "backward 0 of layer 0", "backward 1 of layer 0"};
  std::set<std::string> seen;
  for (const auto& [what, duration] : computes) seen.insert(what);
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(computes["forward 0 of layer 0"], computes["forward 1 of layer 0"]);
  EXPECT_GT(computes["backward 0 of layer 0"], computes["forward 0 of layer 0"]);
  EXPECT_GT(outside, 0) << "the optimizer";
  EXPECT_GT(calls_in_a_layer, 0);
  EXPECT_EQ(messages_in_a_pass, 0);
}

TEST(Trace, SlicesSayWhatTheCallWas) {
  const Json trace = Json::parse(traced("--world-size 2 --train-iters 0"));
  EXPECT_EQ(trace["otherData"]["scenarios"][0]["shows"], "the collective round");
  const auto& events = trace["traceEvents"];
  const auto found = std::find_if(events.begin(), events.end(), [](const Json& event) {
    return event["name"] == "reduce_scatter" && event["args"]["group"] == "dp[0] = {0, 1}";
  });
  ASSERT_NE(found, events.end());
  const Json& args = (*found)["args"];
  EXPECT_EQ((*found)["cat"], "collective");
  EXPECT_EQ(args["site"], "round.reduce_scatter");
  EXPECT_TRUE(args["at"].get<std::string>().find("verify/checks/collective_round.cpp:") != std::string::npos);
  EXPECT_EQ(args["elements"], 1);
  EXPECT_EQ(args["dtype"], "i32");
  EXPECT_EQ(args["reduction"], "sum");
  EXPECT_EQ(args["bytes_inside_node"], 4);
  EXPECT_EQ(args["bytes_across_nodes"], 0);
}

/// Not even the name of the schedule is in the bytes.
TEST(Trace, ScheduleThreadsAndContextsReachNoByte) {
  std::vector<std::string> runs = {"--world-size 12 --tensor-model-parallel-size 2 --train-iters 0"};
#ifndef SHARDPROOF_SANITIZED
  runs.push_back(kSmall);  // a training, which takes a minute under a sanitizer
#endif
  for (const std::string& what : runs) {
    const std::string first = traced(what);
    ASSERT_FALSE(first.empty());
    for (const char* how : {"--schedule uniform --schedule-seed 5", "--schedule pct --schedule-seed 9",
                            "--threads 3", "--schedule uniform --threads 4", "--ranks-as threads"})
      EXPECT_TRUE(traced(what + " " + how) == first) << how;
    EXPECT_FALSE(traced(what + " --gpus-per-node 1") == first) << "bytes across nodes cost more";
  }
}

TEST(Trace, ScenariosHaveProcessesOfTheirOwn) {
  const Json trace = Json::parse(
      traced("scenarios/published/seed-002-dense.ini scenarios/refused/refused-uneven-one-stage.ini "
             "scenarios/diagnosis/diagnosis-mutual-send.ini --train-iters 1"));
  EXPECT_EQ(malformation(trace), "");
  const std::vector<std::string> expected = {"seed-002-dense: pipeline rank 0 of 2",
                                             "seed-002-dense: pipeline rank 1 of 2",
                                             "diagnosis-mutual-send: pipeline rank 0 of 1"};
  EXPECT_EQ(names(trace, "process_name"), expected);
  const Json& said = trace["otherData"]["scenarios"];
  ASSERT_EQ(said.size(), 3U);
  EXPECT_EQ(said[0]["shows"], "training steps 1 to 1 of 1, in f32 at tp 4, pp 2, dp 2");
  EXPECT_EQ(said[1]["shows"], "nothing: no ranks ran");
  EXPECT_EQ(said[2]["shows"], "the program mutual_send");
  EXPECT_EQ(said[2]["finding"], "ranks 0, 1 wait for each other in a cycle");
}

TEST(Trace, ADeadlockIsDrawnToTheEnd) {
  const Json trace = Json::parse(traced("--world-size 2 --program mutual_recv", 3));
  EXPECT_EQ(malformation(trace), "");
  int vain = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] != "recv, in vain") continue;
    ++vain;
    EXPECT_GT(event["dur"].get<std::int64_t>(), 0);
  }
  EXPECT_EQ(vain, 2);
}

TEST(Trace, ARefusalLeavesAValidFile) {
  const Json trace = Json::parse(traced("--world-size 6 --tensor-model-parallel-size 4", 2));
  EXPECT_EQ(malformation(trace), "");
  EXPECT_TRUE(trace["traceEvents"].empty());
  EXPECT_EQ(trace["otherData"]["scenarios"][0]["shows"], "nothing: refused [dense_div]");
}

TEST(Trace, AnyTextStaysText) {
  ScenarioReport report = report_of(sim::world_of(2), [](sim::Rank& rank) {
    rank.groups.world().barrier(sim::Site::named("a \"b\" \\ \x01 \xff"));
  });
  report.name = "<script> \"' \\ \n \xc3 \xed\xa0\x80";
  const Json trace = Json::parse(trace_json({report}));
  EXPECT_EQ(malformation(trace), "");
}

TEST(Trace, AFileTooLargeHasWholePipelinesFirst) {
  const sim::WorldSpec spec{
      .layout = sim::make_layout(
          {.world_size = 64, .tensor_model_parallel_size = 4, .pipeline_model_parallel_size = 4},
          sim::RuleBook::megatron)};
  const auto many = [](sim::Rank& rank) {
    for (int i = 0; i < 4000; ++i) rank.groups.world().barrier("many");
  };
  const std::vector<ScenarioReport> reports = {report_of(sim::world_of(2), [](sim::Rank&) {}),
                                               report_of(spec, many)};
  const Json trace = Json::parse(trace_json(reports));
  EXPECT_EQ(malformation(trace), "");
  const Json& said = trace["otherData"]["scenarios"][1];
  EXPECT_EQ(said["ranks"], 64);
  EXPECT_EQ(said["ranks_written"], verify::kMostTracedSlices / 4000);
  const std::vector<std::string> threads = names(trace, "thread_name");
  for (const char* rank : {"rank 3 (tp 3, pp 0, dp 0)", "rank 16 (tp 0, pp 1, dp 0)",
                           "rank 48 (tp 0, pp 3, dp 0)", "rank 51 (tp 3, pp 3, dp 0)"})
    EXPECT_EQ(std::count(threads.begin(), threads.end(), rank), 1) << rank;
}

TEST(Trace, StandardOutputIsAsWithoutIt) {
  const std::string path = testing::TempDir() + "shardproof-" + std::to_string(getpid()) + "-trace.json";
  const std::string options = "replay " + kSmall + " --format json";
  EXPECT_EQ(test::run(options + " --trace " + path).out, test::run(options).out);
  fs::remove(path);
}

TEST(Trace, TheCheckerSeesWhatIsWrong) {
  const Json right = Json::parse(traced(kSmall));
  ASSERT_EQ(malformation(right), "");
  const auto index = [&](const char* phase, const char* name) {
    const auto& events = right["traceEvents"];
    const auto found = std::find_if(events.begin(), events.end(), [&](const Json& event) {
      return event["ph"] == phase && (*name == '\0' || event["name"] == name);
    });
    return static_cast<std::size_t>(found - events.begin());
  };
  const std::size_t slice = index("X", "compute"), thread = index("M", "thread_name"), from = index("s", ""),
                    to = index("f", "");
  const auto with = [&](std::size_t event, const char* field, const Json& value) {
    Json wrong = right;
    wrong["traceEvents"][event][field] = value;
    return malformation(wrong);
  };
  EXPECT_EQ(with(slice, "ts", -1), "an event without time");
  EXPECT_EQ(with(slice, "ts", 1.5), "an event without time");
  EXPECT_EQ(with(slice, "dur", "1"), "a slice without duration");
  EXPECT_EQ(with(slice, "dur", 1'000'000), "slices of a thread overlap");
  EXPECT_EQ(with(slice, "tid", 99'999), "a slice of a thread without name");
  EXPECT_EQ(with(slice, "ph", "Y"), "an event of phase 'Y'");
  EXPECT_EQ(with(slice, "args", nullptr), "a slice without args");
  EXPECT_EQ(with(thread, "tid", 99'999), "a slice of a thread without name");
  EXPECT_EQ(with(thread + 1, "tid", 99'999), "a thread without sort index");
  EXPECT_EQ(with(from, "id", 99'999), "an arrow without two ends");
  EXPECT_EQ(with(to, "ts", 0), "an arrow back in time");
  EXPECT_EQ(with(to, "ts", 10'000'000), "an arrow that is tied to no message");
}

}  // namespace
