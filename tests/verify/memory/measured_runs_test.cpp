// Holds the count of memory against what H100s measured (tests/oracle/runs.jsonl), prints the table, and
// holds that of verify/memory/README.md to it.

#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run.h"

namespace {

using nlohmann::ordered_json;

struct Measured {
  std::string name;
  bool has_experts = false;
  double static_bytes = 0, peak_bytes = 0;            // measured
  double counted_static_bytes = 0, counted_peak = 0;  // counted, on the last stage
  std::string not_counted;                            // why there is no figure, or none that counts

  double static_ratio() const { return counted_static_bytes / static_bytes; }
  double peak_ratio() const { return counted_peak / peak_bytes; }
};

/// Whether a line is a GPT: the flags of BERT, T5 and other families do not say what they are.
bool is_gpt(const ordered_json& line) {
  const std::string name = line["name"];
  return name.starts_with("gpt/") || name.starts_with("moe/") || name.starts_with("mixtral/");
}

Measured measured(const ordered_json& line) {
  Measured run{.name = line["name"], .has_experts = line["flags"].contains("num-experts")};
  run.static_bytes = line["mem_allocated_bytes"];
  run.peak_bytes = line["mem_max_allocated_bytes"];
  std::string text = "MODEL_ARGS:\n";
  for (const auto& [name, value] : line["flags"].items()) text += "  --" + name + ": " + value.dump() + "\n";
  if (!line["flags"].contains("vocab-size")) text += "  --vocab-size: 50257\n";
  const test::TemporaryFile file("measured.yaml", text);
  const std::string world = line["world"].is_null() || line["world"] == 1 ? "8" : line["world"].dump();
  const test::RunResult result =
      test::run({"memory", "--from", file.path(), "--world-size", world, "--format", "json"});
  const ordered_json document = ordered_json::parse(result.out);
  if (result.exit_code == 2) {
    run.not_counted = "refused: " + document["error"]["code"].get<std::string>();
    return run;
  }
  EXPECT_EQ(result.exit_code, 0) << run.name;
  const ordered_json& stage = document["stages"].back();
  run.counted_static_bytes = stage["static_bytes"];
  run.counted_peak = stage["peak_bytes"];
  if (!document["not_modelled"].empty()) run.not_counted = document["not_modelled"][0].get<std::string>();
  return run;
}

std::vector<Measured> runs() {
  std::ifstream stream(SHARDPROOF_SOURCE_DIR "/tests/oracle/runs.jsonl");
  std::vector<Measured> runs;
  for (std::string text; std::getline(stream, text);) {
    const ordered_json line = ordered_json::parse(text);
    if (line.contains("mem_allocated_bytes") && is_gpt(line)) runs.push_back(measured(line));
  }
  return runs;
}

double in_mib(double bytes) { return bytes / (1 << 20); }

/// A row of the table. Long names are cut.
std::string row_of(const Measured& run) {
  constexpr std::size_t kLongest = 58;
  const std::string name = run.name.substr(run.name.find('/') + 1);
  return fmt::format("| {:.0f} | {:.0f} | {:.3f} | {:.0f} | {:.0f} | {:.3f} | {} |", in_mib(run.static_bytes),
                     in_mib(run.counted_static_bytes), run.static_ratio(), in_mib(run.peak_bytes),
                     in_mib(run.counted_peak), run.peak_ratio(),
                     name.size() <= kLongest ? name : name.substr(0, kLongest - 3) + "...");
}

/// How many of so many runs are within a bound.
struct Share {
  int within = 0, of = 0;
  void add(double ratio, int bound_in_percent) {
    ++of;
    within += std::abs(ratio - 1) * 100 <= bound_in_percent ? 1 : 0;
  }
  double percent() const { return 100.0 * within / of; }
  std::string text() const { return fmt::format("{} of {}, {:.1f} %", within, of, percent()); }
};

TEST(MeasuredRuns, AreCountedWithinTheirBounds) {
  std::ifstream file(SHARDPROOF_SOURCE_DIR "/verify/memory/README.md");
  const std::string readme((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  constexpr double kLarge = 2147483648.0;
  Share between_steps, dense_5, dense_10, experts_5, experts_10;
  std::vector<std::string> rows;
  int all = 0;
  for (const Measured& run : runs()) {
    ++all;
    if (!run.not_counted.empty()) continue;
    rows.push_back(row_of(run));
    between_steps.add(run.static_ratio(), 1);
    if (run.peak_bytes <= kLarge) continue;
    (run.has_experts ? experts_5 : dense_5).add(run.peak_ratio(), 5);
    (run.has_experts ? experts_10 : dense_10).add(run.peak_ratio(), 10);
  }
  rows.push_back(fmt::format("| runs of a GPT that are counted | {} of {} |", between_steps.of, all));
  rows.push_back(fmt::format("| between steps, within 1 % | {} |", between_steps.text()));
  rows.push_back(fmt::format("| largest moment, dense, within 5 % | {} |", dense_5.text()));
  rows.push_back(fmt::format("| largest moment, dense, within 10 % | {} |", dense_10.text()));
  rows.push_back(fmt::format("| largest moment, experts, within 5 % | {} |", experts_5.text()));
  rows.push_back(fmt::format("| largest moment, experts, within 10 % | {} |", experts_10.text()));
  for (const std::string& row : rows) {
    std::cout << row << "\n";
    EXPECT_NE(readme.find("\n" + row + "\n"), std::string::npos) << "the README has no line\n" << row;
  }
  EXPECT_GE(between_steps.percent(), 95);
  EXPECT_GE(dense_5.percent(), 80);
  EXPECT_GE(dense_10.percent(), 95);
  EXPECT_GE(experts_5.percent(), 80);
  EXPECT_GE(experts_10.percent(), 95);
}

}  // namespace
