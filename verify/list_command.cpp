#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/layout/layout.h"
#include "verify/commands.h"
#include "verify/replay.h"
#include "verify/report_json.h"
#include "verify/scenario.h"
#include "verify/text_table.h"

namespace verify {

int run_list(const CommandLine& line, const Output& output) {
  if (!line.scenarios.empty()) {
    sim::refuse({.code = "one_scenario",
                 .option = line.scenarios[0],
                 .numbers = "a scenario given",
                 .rule = "'list' takes none",
                 .hint = "shardproof list"});
  }
  std::vector<Scenario> scenarios;
  for (const std::string& path : scenario_files()) scenarios.push_back(read_scenario(path));

  if (line.settings.choice("format") == "json") {
    nlohmann::ordered_json document = {{"scenarios", nlohmann::ordered_json::array()},
                                       {"checks", nlohmann::ordered_json::array()},
                                       {"kinds", sim::all_kind_names()}};
    for (const Scenario& scenario : scenarios) {
      document["scenarios"].push_back({{"path", scenario.path}, {"source", scenario.source}});
    }
    for (const CheckInfo& check : replay_checks()) {
      document["checks"].push_back({{"name", check.name}, {"proves", check.proves}});
    }
    output.out << one_line(document);
    return kVerified;
  }

  TextTable files({{"scenario"}, {"source"}});
  for (const Scenario& scenario : scenarios) files.add({scenario.path, scenario.source});
  TextTable checks({{"check of replay"}, {"proves that"}});
  for (const CheckInfo& check : replay_checks()) checks.add({check.name, check.proves});
  output.out << files.text() << "\n" << checks.text() << "\n";
  output.out << fmt::format("group kinds  {}\n", fmt::join(sim::all_kind_names(), " "));
  return kVerified;
}

}  // namespace verify
