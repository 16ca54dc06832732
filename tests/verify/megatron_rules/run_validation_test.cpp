// Holds runs of --from against what Megatron itself refuses, accepts and derives: 788 configurations, among
// them its functional tests (tests/oracle/run_validation.jsonl).

#include <cstddef>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/verify/megatron_rules/judged_run.h"
#include "verify/megatron_rules/effective_values.h"
#include "verify/run_arguments/run_yaml.h"

namespace {

using nlohmann::ordered_json;

std::vector<ordered_json> lines_of(const char* file) {
  std::ifstream stream(std::string(SHARDPROOF_TEST_DATA) + "/" + file);
  std::vector<ordered_json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(ordered_json::parse(line));
  return lines;
}

/// The configurations, and the derived values that a configuration has unless its line says otherwise.
struct Data {
  ordered_json usual;
  std::vector<ordered_json> lines;
};

/// Reads the data, and gives each configuration of a functional test the flags of runs.jsonl.
Data data() {
  std::map<std::string, ordered_json> runs;
  for (const ordered_json& line : lines_of("runs.jsonl")) {
    ordered_json flags = line["flags"];
    if (line.contains("supplied")) flags.update(line["supplied"]);
    runs[line["name"]] = flags;
  }
  Data data;
  for (ordered_json& line : lines_of("run_validation.jsonl")) {
    if (line.contains("usual")) {
      data.usual = line["usual"];
      continue;
    }
    if (line.contains("run")) line["flags"] = runs.at(line["run"]);
    data.lines.push_back(std::move(line));
  }
  return data;
}

verify::RunArguments arguments_of(const ordered_json& line) {
  std::string text;
  if (line.contains("env")) {
    text += "ENV_VARS:\n";
    for (const auto& [name, value] : line["env"].items()) text += "  " + name + ": " + value.dump() + "\n";
  }
  text += "MODEL_ARGS:\n";
  for (const auto& [name, value] : line["flags"].items()) text += "  --" + name + ": " + value.dump() + "\n";
  return verify::read_run_yaml(text);
}

/// Configurations that Megatron judges otherwise, with the reason.
const std::map<int, std::string>& exceptions() {
  static const std::string device =
      "Megatron needs one connection on devices before Blackwell, which no argument names: replay warns";
  static const std::string shares =
      "more ranks than expert tensor parallelism has share the weights of experts, and the groups that this "
      "makes are not modelled";
  static const std::map<int, std::string> all = {
      {403, shares},
      {408, shares},
      {517, device},
      {519, device},
  };
  return all;
}

TEST(RunValidation, RefusesAndAcceptsWhatMegatronDoes) {
  int refused = 0, accepted = 0;
  for (const ordered_json& line : data().lines) {
    const test::JudgedAsScenario own = test::judged(arguments_of(line), line["world"].get<std::int64_t>());
    const bool is_refused = line.contains("refused");
    ++(is_refused ? refused : accepted);
    const bool agrees = is_refused == !own.refused.empty();
    std::string codes;
    for (const std::string& code : own.refused) codes += " " + code;
    EXPECT_NE(agrees, exceptions().contains(line["id"].get<int>()))
        << line["id"] << " " << (is_refused ? line["refused"].get<std::string>() : "accepted") << codes;
  }
  EXPECT_EQ(refused, 301);
  EXPECT_EQ(accepted, 487);
}

TEST(RunValidation, DerivesWhatMegatronDerives) {
  const Data all = data();
  std::size_t checked = 0;
  for (const ordered_json& line : all.lines) {
    if (!line.contains("effective")) continue;
    ordered_json expected = all.usual;
    expected.update(line["effective"]);
    const verify::RunValues values(arguments_of(line));
    const auto own =
        ordered_json::parse(verify::effective_values(values, line["world"].get<std::int64_t>()).dump());
    for (const auto& [name, value] : expected.items()) {
      EXPECT_EQ(own[name], value) << line["id"] << " " << name;
      ++checked;
    }
  }
  EXPECT_EQ(checked, 487U * all.usual.size());
}

}  // namespace
