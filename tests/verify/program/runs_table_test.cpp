// Counts what becomes of the runs of Megatron's functional tests (tests/oracle/runs.jsonl), prints the table,
// and holds that of scenarios/README.md to it.

#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/run.h"

namespace {

using nlohmann::ordered_json;

enum Model : std::size_t { kDense, kExperts, kOther, kModels };
constexpr const char* kNames[] = {"dense GPT", "mixture of experts", "other"};

Model model_of(const ordered_json& line) {
  if (line["flags"].contains("num-experts")) return kExperts;
  const std::string family = line["name"].get<std::string>();
  return family.starts_with("gpt/") || family.starts_with("nemotron/") ? kDense : kOther;
}

std::vector<ordered_json> lines() {
  std::ifstream stream(SHARDPROOF_SOURCE_DIR "/tests/oracle/runs.jsonl");
  std::vector<ordered_json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(ordered_json::parse(line));
  return lines;
}

struct Count {
  int done = 0;
  std::map<std::string, int> refused;  // by the code of the first refusal
};

/// The runs, those that were done, and why the others were refused. The most frequent code is named.
std::string text_of(const Count& count) {
  int runs = count.done;
  std::vector<std::pair<int, std::string>> refused;
  for (const auto& [code, times] : count.refused) refused.emplace_back(-times, code);
  std::sort(refused.begin(), refused.end());
  std::vector<std::string> codes;
  int others = 0;
  for (const auto& [times, code] : refused) {
    runs -= times;
    if (codes.empty())
      codes.push_back(fmt::format("{} `{}`", -times, code));
    else
      others -= times;
  }
  if (others > 0) codes.push_back(fmt::format("{} by other rules", others));
  return fmt::format("{} | {} | {}", runs, count.done, fmt::join(codes, ", "));
}

/// The code of the refusal; "" where the command did its work.
std::string refusal_of(const std::vector<std::string>& words) {
  const test::RunResult result = test::run(words);
  if (result.exit_code != 2) return "";
  const ordered_json document = ordered_json::parse(result.out);
  const ordered_json& refused = document.contains("error") ? document : document["scenarios"][0];
  EXPECT_FALSE(refused["error"]["numbers"].get<std::string>().empty());
  return refused["error"]["code"];
}

TEST(RunsTable, IsTheReadmes) {
  std::ifstream file(SHARDPROOF_SOURCE_DIR "/scenarios/README.md");
  const std::string readme((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::vector<std::vector<std::string>> commands = {
      {"groups"}, {"layers"}, {"replay", "--layout-only"}};
  std::map<std::string, std::array<Count, kModels>> table;
  for (const ordered_json& line : lines()) {
    std::string text = "MODEL_ARGS:\n";
    for (const auto& [name, value] : line["flags"].items())
      text += "  --" + name + ": " + value.dump() + "\n";
    const test::TemporaryFile run("run.yaml", text);
    const std::string world = line["world"].is_null() ? "8" : line["world"].dump();
    for (std::vector<std::string> words : commands) {
      Count& count = table[fmt::format("{}", fmt::join(words, " "))][model_of(line)];
      words.insert(words.end(), {"--from", run.path(), "--world-size", world, "--format", "json"});
      const std::string code = refusal_of(words);
      code.empty() ? ++count.done : ++count.refused[code];
    }
  }
  std::vector<std::string> rows;
  for (const auto& [command, counts] : table) {
    for (const Model model : {kDense, kExperts, kOther})
      rows.push_back(fmt::format("| `{}` | {} | {} |", command, kNames[model], text_of(counts[model])));
  }
  for (const std::string& row : rows) {
    std::cout << row << "\n";
    EXPECT_NE(readme.find("\n" + row + "\n"), std::string::npos) << "the README has no line\n" << row;
  }
}

}  // namespace
