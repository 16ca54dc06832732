#pragma once

/// The rows of broken_runs.tsv and broken_options.tsv: a change of what holds, and the codes with which it is
/// refused then.

#include <cstddef>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "verify/megatron_rules/rule_facts.h"
#include "verify/megatron_rules/rule_table.h"
#include "verify/output/table_rows.h"

namespace test {

struct Broken {
  std::string base;  // the name of what holds
  std::string words;
  std::set<std::string> codes;
};

inline std::vector<Broken> broken_rows(const std::string& file) {
  std::ostringstream table;
  table << std::ifstream(std::string(SHARDPROOF_SOURCE_DIR) + "/tests/verify/megatron_rules/" + file).rdbuf();
  std::vector<Broken> rows;
  for (const verify::TextRow& row : verify::rows_of_table(table.str())) {
    const std::vector<std::string> codes = verify::words_of_cell(row.at(2));
    rows.push_back({row.at(0), row.at(1), {codes.begin(), codes.end()}});
  }
  return rows;
}

/// The rows of the table of rules that are broken, by number.
inline std::set<std::size_t> broken_rules(const verify::RuleFacts& facts) {
  std::set<std::size_t> broken;
  for (std::size_t row = 0; row < verify::megatron_rules().size(); ++row)
    if (verify::megatron_rules()[row].is_broken(facts)) broken.insert(row);
  return broken;
}

/// The rules of runs or of options that are not among these, as "code (first argument)".
inline std::string rules_but(const std::set<std::size_t>& met, bool verify::MegatronRule::*is_held) {
  std::string others;
  for (std::size_t row = 0; row < verify::megatron_rules().size(); ++row) {
    const verify::MegatronRule& rule = verify::megatron_rules()[row];
    if (rule.*is_held && !met.contains(row)) others += rule.code + " (--" + rule.arguments.front() + ")\n";
  }
  return others;
}

}  // namespace test
