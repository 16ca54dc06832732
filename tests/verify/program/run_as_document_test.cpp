// Proves that a run has the same answers when it is written as a document and read again, whatever it was
// read from: for the runs of Megatron's functional tests, and for runs that are drawn from them.

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/run.h"

namespace {

using nlohmann::ordered_json;

using Words = std::vector<std::string>;
using Flags = std::vector<std::pair<std::string, ordered_json>>;

std::vector<ordered_json> lines() {
  std::ifstream stream(SHARDPROOF_SOURCE_DIR "/tests/oracle/runs.jsonl");
  std::vector<ordered_json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(ordered_json::parse(line));
  return lines;
}

Flags flags_of(const ordered_json& line) {
  Flags flags;
  for (const auto& [name, value] : line["flags"].items()) flags.emplace_back(name, value);
  return flags;
}

std::string plain(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string as_yaml(const Flags& flags) {
  std::string text = "MODEL_ARGS:\n";
  for (const auto& [name, value] : flags) text += "  --" + name + ": " + value.dump() + "\n";
  return text;
}

std::string as_words(const Flags& flags) {
  std::string text;
  for (const auto& [name, value] : flags) {
    if (value == ordered_json(false) || value.is_null()) continue;
    text += " --" + name;
    if (value != ordered_json(true)) text += " '" + plain(value) + "'";
  }
  return text;
}

std::string as_log(const Flags& flags) {
  std::string text = "------------------------ arguments ------------------------\n";
  for (auto [name, value] : flags) {
    std::ranges::replace(name, '-', '_');
    const std::string said = value.is_boolean() ? (value.get<bool>() ? "True" : "False") : plain(value);
    text +=
        "  " + name + " " + std::string(48 - std::min<std::size_t>(name.size(), 40), '.') + " " + said + "\n";
  }
  return text + "-------------------- end of arguments ---------------------\n";
}

/// What an answer says of the run, without the path of its file.
ordered_json said(const test::RunResult& result) {
  ordered_json document = ordered_json::parse(result.out);
  if (document.contains("scenarios"))
    for (ordered_json& scenario : document["scenarios"]) scenario.erase("reproduce");
  ordered_json& refused = document.contains("scenarios") ? document["scenarios"][0] : document;
  std::vector<ordered_json*> errors;
  if (refused.contains("error")) errors.push_back(&refused["error"]);
  if (refused.contains("further_errors"))
    for (ordered_json& error : refused["further_errors"]) errors.push_back(&error);
  for (ordered_json* error : errors) {
    const std::string option = (*error)["option"];
    if (option.starts_with("--from") || option == "--command") (*error)["option"] = "the run";
  }
  document["exit code"] = result.exit_code;
  return document;
}

/// Asks a command about a run, and again about the document that it wrote. Returns whether it wrote one.
bool expect_same(Words command, const Words& source, const Words& options) {
  const test::TemporaryFile document("written.json", "");
  command.insert(command.end(), {"--format", "json"});
  Words first = command;
  for (const Words& more : {options, Words{"--from-as", "run", document.path()}, source})
    first.insert(first.end(), more.begin(), more.end());
  const test::RunResult direct = test::run(first);
  if (std::ifstream(document.path()).peek() == std::ifstream::traits_type::eof()) {
    EXPECT_EQ(direct.exit_code, 2);
    return false;
  }
  Words second = command;
  second.insert(second.end(), {"--from", document.path()});
  const test::RunResult again = test::run(second);
  EXPECT_EQ(said(again), said(direct)) << direct.err << again.err;
  return true;
}

const std::vector<Words>& commands() {
  static const std::vector<Words> all = {
      {"layers"}, {"groups"}, {"memory", "--gpu-memory", "80GB"}, {"replay", "--layout-only"}, {"schedule"}};
  return all;
}

TEST(RunAsDocument, TheRunsOfMegatronsTestsHaveTheSameAnswers) {
  std::size_t number = 0, written = 0;
  for (const ordered_json& line : lines()) {
    const test::TemporaryFile file("run.yaml", as_yaml(flags_of(line)));
    const std::string world = line["world"].is_null() ? "8" : line["world"].dump();
    const Words& command = commands()[number++ % commands().size()];
    if (expect_same(command, {"--from", file.path()}, {"--world-size", world})) ++written;
  }
  EXPECT_GE(written, 200U);
}

class Drawn {
 public:
  explicit Drawn(unsigned seed) : random_(seed) {}
  std::size_t below(std::size_t end) { return random_() % end; }
  bool one_in(std::size_t times) { return below(times) == 0; }

 private:
  std::mt19937 random_;
};

/// Leaves some flags out of a run, and adds others: unknown ones, repeated ones, and some that Megatron
/// refuses.
Flags changed(Flags flags, Drawn& drawn) {
  static const Flags further = {{"num-layerz", 3},
                                {"bf16", true},
                                {"tensor-model-parallel-size", 2},
                                {"tensor-model-parallel-size", 1},
                                {"pipeline-model-parallel-size", 2},
                                {"rampup-batch-size", "2"},
                                {"fp8-format", "hybrid"},
                                {"deepspeed", true},
                                {"position-embedding-type", "rope"},
                                {"decrease-batch-size-if-needed", true},
                                {"recompute-granularity", "full"},
                                {"use-distributed-optimizer", true}};
  for (int i = 0; i < 2; ++i)
    if (!flags.empty()) flags.erase(flags.begin() + static_cast<std::ptrdiff_t>(drawn.below(flags.size())));
  for (std::size_t more = drawn.below(3); more > 0; --more)
    flags.push_back(further[drawn.below(further.size())]);
  return flags;
}

/// The text of a launch script with some words that only a shell could tell.
std::string as_script(const Flags& flags, Drawn& drawn) {
  static const Words unknown = {"$EXTRA", "--log-interval $EVERY", "--save $DIR", "--bf16 True",
                                "--seq_length 64"};
  std::string text = drawn.one_in(2) ? "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" : "";
  text += "MODEL=(" + as_words(flags) + ")\n";
  if (drawn.one_in(3)) text += "if [ -n \"$TUNE\" ]; then MODEL+=(--log-interval 5); fi\n";
  text += "torchrun --nnodes 2 --nproc_per_node 4 " +
          std::string(drawn.one_in(4) ? "pretrain_bert.py" : "pretrain_gpt.py") + " ${MODEL[@]}";
  if (drawn.one_in(3)) text += " " + unknown[drawn.below(unknown.size())];
  return text + "\n";
}

/// Options of the command line that replace arguments of a run. `groups` and its like read the first two.
Words replaced(const std::string& command, Drawn& drawn) {
  static const std::vector<Words> options = {{"--world-size", "16"},
                                             {"--tensor-model-parallel-size", "2"},
                                             {"--gpus-per-node", "4"},
                                             {"--micro-batch-size", "2"},
                                             {"--num-layers", "8"},
                                             {"--sequence-parallel"},
                                             {"--bf16=false"},
                                             {"--recompute-granularity", "selective"},
                                             {"--global-batch-size", "48"}};
  const bool reads_all = command == "memory" || command == "replay";
  Words all;
  for (std::size_t i = 0; i < (reads_all ? options.size() : 2); ++i)
    if (drawn.one_in(4)) all.insert(all.end(), options[i].begin(), options[i].end());
  return all;
}

TEST(RunAsDocument, DrawnRunsHaveTheSameAnswers) {
  const std::vector<ordered_json> runs = lines();
  std::size_t written = 0;
  constexpr unsigned kRuns = 200;
  for (unsigned seed = 0; seed < kRuns; ++seed) {
    Drawn drawn(seed);
    Flags flags = changed(flags_of(runs[drawn.below(runs.size())]), drawn);
    const std::size_t form = seed % 4;
    if (form == 2) flags.emplace_back("world-size", 8);
    const std::string text = form == 0   ? as_script(flags, drawn)
                             : form == 1 ? as_yaml(flags)
                             : form == 2 ? as_log(flags)
                                         : "torchrun --nproc_per_node 8 pretrain_gpt.py" + as_words(flags);
    const Words& command = commands()[drawn.below(commands().size())];
    Words options = replaced(command.front(), drawn);
    if (form == 1 && std::ranges::find(options, "--world-size") == options.end())
      options.insert(options.end(), {"--world-size", "8"});
    const test::TemporaryFile file("run_tp2.txt", text);
    const Words source = form == 3 ? Words{"--command", text} : Words{"--from", file.path()};
    if (expect_same(command, source, options)) ++written;
    EXPECT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << "\n" << text;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GE(written, kRuns * 3 / 4);
}

/// The document says where each part of the run came from.
TEST(RunAsDocument, SaysWhereEachPartCameFrom) {
  const test::TemporaryFile file("pretrain.sh",
                                 "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
                                 "torchrun --nnodes $NODES --nproc_per_node 4 pretrain_gpt.py \\\n"
                                 "  --num-layers 4 --tensor-model-parallel-size 2\n");
  const test::TemporaryFile written("run.json", "");
  const test::RunResult result =
      test::run({"layers", "--from", file.path(), "--set", "NODES=2", "--tensor-model-parallel-size", "4",
                 "--from-as", "run", written.path()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const ordered_json document = ordered_json::parse(std::ifstream(written.path()));
  EXPECT_EQ(document["name"], file.path());
  EXPECT_EQ(document["arguments"][0], ordered_json({{"name", "num-layers"}, {"values", {"4"}}, {"line", 3}}));
  EXPECT_EQ(document["arguments"][2],
            ordered_json({{"name", "tensor-model-parallel-size"}, {"values", {"4"}}, {"from", "option"}}));
  EXPECT_EQ(document["world"]["from"], "--nnodes 2 x --nproc_per_node 4 of torchrun, line 2");
  EXPECT_EQ(document["set"]["NODES"], "2");
  EXPECT_EQ(document["environment"]["CUDA_DEVICE_MAX_CONNECTIONS"], "1");
}

TEST(RunAsDocument, IsNoScenario) {
  const test::TemporaryFile file("run.sh", "torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 4\n");
  const std::string refused =
      test::run({"layers", "--from", file.path(), "--from-as", "run", testing::TempDir() + "/x.ini"}).err;
  EXPECT_NE(refused.find("from_as_file"), std::string::npos) << refused;
  EXPECT_NE(
      test::run({"layers", "--from", file.path(), "--from-as", "run", file.path()}).err.find("from_as_file"),
      std::string::npos);
}

}  // namespace
