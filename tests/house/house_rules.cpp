#include "tests/house/house_rules.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace test {

namespace {

/// Folder -> what it may include of the house. A folder of sources that is not here may not exist.
const std::map<std::string, std::vector<std::string>>& arrows() {
  static const std::map<std::string, std::vector<std::string>> table = {
      {"sim/base", {"sim/base"}},
      {"sim/cluster", {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/cluster"}},
      {"sim/layout", {"sim/base", "sim/layout"}},
      {"sim/tensor", {"sim/base", "sim/tensor"}},
      {"sim/comm", {"sim/base", "sim/layout", "sim/tensor", "sim/comm"}},
      {"sim/world", {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/world"}},
      {"sim/parallel", {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel"}},
      {"sim/optimizer",
       {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel", "sim/optimizer"}},
      {"sim/pipeline",
       {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel", "sim/optimizer", "sim/pipeline"}},
      {"sim/model",
       {"sim/base", "sim/layout", "sim/tensor", "sim/comm", "sim/parallel", "sim/optimizer", "sim/pipeline",
        "sim/model"}},
      // Kernels and what runs them know plain numbers; the device itself knows tensors, and the communicator ranks.
      {"gpu", {"gpu", "sim/base", "sim/tensor", "sim/comm", "sim/layout", "sim/cluster"}},
      {"gpu/cuda", {"gpu", "sim/base"}},
      {"gpu/on_host", {"gpu", "sim/base"}},
      {"gpu/stub", {"gpu", "sim/base"}},
      {"verify/reference", {"verify/reference", "sim/base"}},
      {"verify", {"verify", "sim", "gpu"}},
      {"tests", {"tests", "verify", "gpu", "sim"}},
  };
  return table;
}

bool is_in(const std::string& path, const std::string& folder) { return path.starts_with(folder + "/"); }

bool ends_in(const std::string& path, const char* suffix) { return path.ends_with(suffix); }

std::string room_of(const std::string& path) {
  std::string longest;
  for (const auto& [folder, seen] : arrows()) {
    if (is_in(path, folder) && folder.size() > longest.size()) longest = folder;
  }
  return longest;
}

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  std::vector<std::string> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), regex); match != std::sregex_iterator();
       ++match) {
    found.push_back((*match)[1].str());
  }
  return found;
}

std::vector<std::string> included_files(const SourceFile& file) {
  return matches(file.text, "(?:^|\n)\\s*#\\s*include\\s*[\"<]((?:sim|gpu|verify|tests)/[^\">]+)[\">]");
}

}  // namespace

namespace {

/// Rooms whose programs run in every arithmetic and on every device.
bool is_written_once(const std::string& room) {
  return room == "sim/parallel" || room == "sim/optimizer" || room == "sim/pipeline" || room == "sim/model";
}

bool knows_a_scalar(const std::string& included) {
  static const std::vector<std::string> headers = {"sim/base/bfloat16.h",
                                                   "sim/base/field.h",
                                                   "sim/base/field_sum.h",
                                                   "sim/base/field_tower.h",
                                                   "sim/tensor/cpu_device.h",
                                                   "sim/tensor/elements.h",
                                                   "sim/tensor/kernel_arithmetic.h",
                                                   "sim/tensor/matrix_product.h",
                                                   "sim/tensor/product_tile.h",
                                                   "sim/tensor/scalar_arithmetic.h"};
  return std::find(headers.begin(), headers.end(), included) != headers.end();
}

}  // namespace

std::vector<std::string> include_direction(const std::vector<SourceFile>& files) {
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    const std::string room = room_of(file.path);
    if (room.empty()) {
      violations.push_back(file.path + ": lies in a folder without a row in the table of arrows");
      continue;
    }
    for (const std::string& included : included_files(file)) {
      const auto& allowed = arrows().at(room);
      const bool fine = std::any_of(allowed.begin(), allowed.end(),
                                    [&](const std::string& folder) { return is_in(included, folder); });
      if (!fine) violations.push_back(file.path + ": " + room + " may not include " + included);
      if (is_written_once(room) && knows_a_scalar(included)) {
        violations.push_back(file.path + ": layers are written once, for every scalar and device: not " +
                             included);
      }
    }
    const bool may_see_eigen = room == "verify/reference" || room == "tests";
    if (!may_see_eigen && file.text.find("#include <Eigen/") != std::string::npos) {
      violations.push_back(file.path + ": Eigen belongs in verify/reference");
    }
  }
  return violations;
}

std::vector<std::string> banned_names(const std::vector<SourceFile>& files) {
  struct Ban {
    const char* pattern;
    const char* only_in;  // a folder, or empty for everywhere
    const char* why;
    const char* but_in = "";  // one file
  };
  const std::vector<Ban> bans = {
      {"\\b(random_device)\\b", "", "draws from the machine; use a seed"},
      {"\\b((?:EXPECT|ASSERT)_(?:NEAR|DOUBLE_EQ|FLOAT_EQ)|DoubleNear|FloatNear)\\b", "",
       "a hand-written tolerance"},
      {"\\b([0-9.]+[eE]-[0-9]+|0\\.0[0-9]+)f?\\b", "", "a hand-written tolerance"},
      {"\\b([a-z_]+_clock|clock_gettime|gettimeofday)\\b", "sim", "a wall clock",
       "sim/cluster/deadline.cpp"},  // until when a process waits for others; it reaches no result
      {"\\b(time|clock)\\s*\\(", "sim", "a wall clock"},
      {"\\b(unordered_map|unordered_set)\\b", "sim", "iterates in no stated order"},
      {"\\b(get_id|srand|rand)\\s*\\(", "sim", "differs from run to run"},
  };
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    if (file.path.starts_with("tests/house/")) continue;  // this table, and the violations planted for it
    for (const Ban& ban : bans) {
      if (*ban.only_in != '\0' && !is_in(file.path, ban.only_in)) continue;
      if (file.path == ban.but_in) continue;
      for (const std::string& name : matches(file.text, ban.pattern)) {
        violations.push_back(file.path + ": " + name + ": " + ban.why);
      }
    }
  }
  return violations;
}

std::vector<std::string> headers_without_manual(const std::vector<SourceFile>& files) {
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    if (!ends_in(file.path, ".h")) continue;
    if (!file.text.starts_with("#pragma once\n\n/// ")) {
      violations.push_back(file.path + ": does not open with '#pragma once' and a manual in '///' lines");
    }
  }
  return violations;
}

std::vector<std::string> unbuilt_files(const std::vector<SourceFile>& files,
                                       const std::string& compile_commands) {
  std::set<std::string> included;
  for (const SourceFile& file : files) {
    for (const std::string& name : included_files(file)) included.insert(name);
  }
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    if (ends_in(file.path, ".cpp") && compile_commands.find("/" + file.path + "\"") == std::string::npos) {
      violations.push_back(file.path + ": no target compiles it");
    }
    const bool is_outside = is_in(file.path, "tests/outside");  // a project with include names of its own
    if (ends_in(file.path, ".h") && !is_outside && !included.contains(file.path)) {
      violations.push_back(file.path + ": nothing includes it");
    }
  }
  return violations;
}

std::vector<std::string> scenario_rules(const std::vector<SourceFile>& scenarios,
                                        const std::string& cmake_lists) {
  std::vector<std::string> violations;
  for (const SourceFile& file : scenarios) {
    if (!ends_in(file.path, ".ini")) violations.push_back(file.path + ": is no .ini file");
    if (!file.text.starts_with("# Source: "))
      violations.push_back(file.path + ": first line is not '# Source: ...'");
    const std::string name = file.path.substr(file.path.find('/') + 1);
    if (cmake_lists.find("  " + name.substr(0, name.find(".ini")) + "\n") == std::string::npos) {
      violations.push_back(file.path + ": no test runs it (SHARDPROOF_SCENARIOS in CMakeLists.txt)");
    }
  }
  return violations;
}

std::vector<std::string> unprovoked_refusals(const std::vector<SourceFile>& files,
                                             const std::string& refusal_tests) {
  std::set<std::string> codes;
  for (const SourceFile& file : files) {
    if (is_in(file.path, "tests")) continue;
    for (const std::string& code : matches(file.text, "\\.code = \"([a-z_]+)\"")) codes.insert(code);
    for (const std::string& paragraph : matches(file.text, "\n/// Errors((?:[^\n]*)(?:\n///    [^\n]*)*)")) {
      for (const std::string& code : matches(paragraph, "\\b([a-z]+(?:_[a-z]+)+)\\b(?!\\.h)"))
        codes.insert(code);
    }
  }
  std::vector<std::string> violations;
  for (const std::string& code : codes) {
    if (refusal_tests.find("\"" + code + "\"") == std::string::npos)
      violations.push_back(code + ": never provoked");
  }
  return violations;
}

}  // namespace test
