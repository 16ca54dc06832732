#include "tests/house/house_rules.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/house/rooms.h"

namespace test {

namespace {

bool is_in(const std::string& path, const std::string& folder) { return path.starts_with(folder + "/"); }

bool ends_in(const std::string& path, const char* suffix) { return path.ends_with(suffix); }

/// Whether a room may include a file.
bool sees(const Room& room, const std::string& included) {
  if (room.folder == "tests" || included.substr(0, included.rfind('/')) == room.folder) return true;
  return std::any_of(room.sees.begin(), room.sees.end(),
                     [&](const std::string& folder) { return is_in(included, folder); });
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

/// Whether the programs of a room are written once and run in every arithmetic and on every device.
bool is_written_once(const std::string& room) {
  return room == "sim/parallel" || room == "sim/context" || room == "sim/experts" ||
         room == "sim/optimizer" || room == "sim/pipeline" || room == "sim/model";
}

/// Returns the types that a source defines in namespaces with a name, as "sim::Layout". Types in others, and
/// types within types, are not the linker's.
std::vector<std::string> types_for_the_linker(const std::string& source) {
  static const std::regex opens("namespace ?([\\w:]*) \\{"), closes("\\}  // namespace ?[\\w:]*");
  static const std::regex defines("(?:struct|class|enum|enum class|union) (\\w+)(?: final)?(?: :.*)? \\{.*");
  std::vector<std::string> types, namespaces;
  std::istringstream lines(source);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, opens)) {
      namespaces.push_back(match[1].str());
    } else if (std::regex_match(line, closes) && !namespaces.empty()) {
      namespaces.pop_back();
    } else if (std::regex_match(line, match, defines) &&
               std::find(namespaces.begin(), namespaces.end(), "") == namespaces.end()) {
      std::string type;
      for (const std::string& name : namespaces) type += name + "::";
      types.push_back(type + match[1].str());
    }
  }
  return types;
}

bool knows_a_scalar(const std::string& included) {
  static const std::vector<std::string> headers = {
      "sim/base/bfloat16.h",           "sim/base/field.h",         "sim/base/field_sum.h",
      "sim/base/field_tower.h",        "sim/cpu/cpu_device.h",     "sim/cpu/elements.h",
      "sim/cpu/kernel_arithmetic.h",   "sim/cpu/matrix_product.h", "sim/cpu/product_tile.h",
      "sim/tensor/scalar_arithmetic.h"};
  return std::find(headers.begin(), headers.end(), included) != headers.end();
}

}  // namespace

std::vector<std::string> include_direction(const std::vector<SourceFile>& files) {
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    const Room* room = room_of(file.path);
    if (room == nullptr) {
      violations.push_back(file.path + ": its folder is not in the table of rooms (tests/house/rooms.cpp)");
      continue;
    }
    for (const std::string& included : included_files(file)) {
      if (!sees(*room, included))
        violations.push_back(file.path + ": " + room->folder + " may not include " + included);
      if (is_written_once(room->folder) && knows_a_scalar(included)) {
        violations.push_back(
            file.path + ": layers are written once for every scalar and device, so they may not include " +
            included);
      }
    }
    const bool may_see_eigen = room->folder == "verify/reference" || room->folder == "tests";
    if (!may_see_eigen && file.text.find("#include <Eigen/") != std::string::npos) {
      violations.push_back(file.path + ": only verify/reference and tests may include Eigen");
    }
  }
  return violations;
}

std::vector<std::string> banned_names(const std::vector<SourceFile>& files) {
  struct Ban {
    std::vector<std::string> signs;  // every match has one; text is found a hundred times as fast as patterns
    const char* pattern;
    const char* only_in;  // the folder to which the ban applies; "": everywhere
    const char* why;
    const char* but_in = "";  // one file that is exempt
  };
  const std::vector<std::string> judged = {"buffer_layout", "owned_pieces", "traffic_of"};
  const std::vector<Ban> bans = {
      {{"random_device"}, "\\b(random_device)\\b", "", "it draws from the machine; use a seed"},
      {{"NEAR", "DOUBLE_EQ", "FLOAT_EQ", "DoubleNear", "FloatNear"},
       "\\b((?:EXPECT|ASSERT)_(?:NEAR|DOUBLE_EQ|FLOAT_EQ)|DoubleNear|FloatNear)\\b",
       "",
       "it is a hand-written tolerance; derive a bound"},
      {{"e-", "E-", "0.0"},
       "\\b([0-9.]+[eE]-[0-9]+|0\\.0[0-9]+)f?\\b",
       "",
       "it is a hand-written tolerance; derive a bound"},
      {{"_clock", "clock_gettime", "gettimeofday"},
       "\\b([a-z_]+_clock|clock_gettime|gettimeofday)\\b",
       "sim",
       "it is a wall clock",
       "sim/base/deadline.h"},  // how long a process waits for others; no result uses it
      {{"time", "clock"}, "\\b(time|clock)\\s*\\(", "sim", "it is a wall clock"},
      {{"unordered_"}, "\\b(unordered_map|unordered_set)\\b", "sim", "it iterates in no stated order"},
      {{"get_id", "rand"}, "\\b(get_id|srand|rand)\\s*\\(", "sim", "it differs from run to run"},
      // What a case expects is computed in verify/reference, not by the code that it judges.
      {judged, "\\b(buffer_layout|owned_pieces|traffic_of)\\b", "verify/cases",
       "it is the code that is judged; use verify/reference"},
      {judged, "\\b(buffer_layout|owned_pieces|traffic_of)\\b", "verify/properties",
       "it is the code that is judged; use verify/reference"},
  };
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    if (file.path.starts_with("tests/house/")) continue;  // this table, and planted violations
    for (const Ban& ban : bans) {
      if (*ban.only_in != '\0' && !is_in(file.path, ban.only_in)) continue;
      if (file.path == ban.but_in) continue;
      for (const std::string& line : lines_with(file.text, ban.signs)) {
        for (const std::string& name : matches(line, ban.pattern))
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

std::vector<std::string> types_defined_twice(const std::vector<SourceFile>& files) {
  std::map<std::string, std::string> defined;  // by type: the file that defines it first
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    if (is_in(file.path, "gpu/on_host") || is_in(file.path, "tests/outside")) continue;
    for (const std::string& type : types_for_the_linker(file.text)) {
      const auto [first, is_new] = defined.emplace(type, file.path);
      if (!is_new && first->second != file.path)
        violations.push_back(file.path + ": " + first->second + " defines " + type + ", too");
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
    const bool is_outside = is_in(file.path, "tests/outside");  // a project with its own include paths
    const bool is_for_lint = is_in(file.path, "tests/lint");  // `./shardproof lint` includes it from outside
    if (ends_in(file.path, ".h") && !is_outside && !is_for_lint && !included.contains(file.path)) {
      violations.push_back(file.path + ": nothing includes it");
    }
  }
  return violations;
}

std::vector<std::string> scenario_rules(const std::vector<SourceFile>& scenarios) {
  static const std::set<std::string> folders = {"published", "diagnosis", "refused", "training", "cluster",
                                                "dumps",     "machines",  "faults",  "values"};
  std::vector<std::string> violations;
  for (const SourceFile& file : scenarios) {
    if (file.path == "scenarios/README.md") continue;
    const std::string inside = file.path.substr(file.path.find('/') + 1);
    if (!folders.contains(inside.substr(0, inside.find('/'))))
      violations.push_back(file.path + ": it is in none of the folders of scenarios/");
    if (!ends_in(file.path, ".ini")) continue;
    if (!file.text.starts_with("# Source: "))
      violations.push_back(file.path + ": its first line is not '# Source: ...'");
  }
  return violations;
}

std::vector<std::string> long_lines(const std::vector<SourceFile>& files) {
  constexpr std::size_t kMostColumns = 110;
  std::vector<std::string> violations;
  for (const SourceFile& file : files) {
    std::istringstream lines(file.text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      // Continuation bytes of a UTF-8 character do not count as columns.
      const auto columns = static_cast<std::size_t>(
          std::count_if(line.begin(), line.end(), [](unsigned char c) { return (c & 0xc0U) != 0x80U; }));
      if (columns > kMostColumns)
        violations.push_back(file.path + ":" + std::to_string(number) + ": " + std::to_string(columns) +
                             " columns");
    }
  }
  return violations;
}

namespace {

/// Returns the manual without its blocks of code. With `keeps_code` only the output in console blocks goes.
/// A line that goes leaves an empty one, so that the others keep their numbers.
SourceFile without_blocks(const SourceFile& manual, bool keeps_code) {
  SourceFile kept = {manual.path, ""};
  std::istringstream lines(manual.text);
  std::string block;  // the first line of the block that a line is in
  for (std::string line; std::getline(lines, line);) {
    const bool is_fence = line.starts_with("```");
    const bool is_output = block == "```console" && !line.starts_with("$ ");
    const bool goes = !is_fence && !block.empty() && (!keeps_code || is_output);
    if (is_fence) block = block.empty() ? line : "";
    kept.text += (goes ? "" : line) + "\n";
  }
  return kept;
}

/// Whether the text is a path from the root: "sim/world/finding.h". Names with blanks, dots for the rest of a
/// name, or other signs are not.
bool is_a_path(const std::string& text) {
  static const std::regex path("(sim|gpu|verify|tests|scenarios)/[A-Za-z0-9_./-]+");
  return std::regex_match(text, path) && text.find("...") == std::string::npos;
}

std::vector<std::string> dead_links(const SourceFile& manual, const std::set<std::string>& paths) {
  const auto exists = [&](const std::filesystem::path& path) {
    std::string name = path.lexically_normal().string();
    if (name.ends_with('/')) name.pop_back();
    return paths.contains(name);
  };
  const std::filesystem::path folder = std::filesystem::path(manual.path).parent_path();
  const std::string text = without_blocks(manual, false).text;
  std::vector<std::string> violations;
  for (const std::string& link : matches(text, "\\]\\(([^)#\\s]+)[^)]*\\)")) {
    if (!link.starts_with("https://") && !exists(folder / link))
      violations.push_back(manual.path + ": the link to " + link + " leads nowhere");
  }
  for (const std::string& name : matches(text, "`([^`\n]+)`")) {
    if (is_a_path(name) && !exists(name))
      violations.push_back(manual.path + ": it names " + name + ", which does not exist");
  }
  return violations;
}

}  // namespace

std::vector<std::string> manual_rules(const std::vector<SourceFile>& manuals,
                                      const std::set<std::string>& paths) {
  constexpr std::ptrdiff_t kMostLinesOfTheDoor = 200;
  std::vector<std::string> violations;
  for (const SourceFile& manual : manuals) {
    for (const std::string& line : long_lines({without_blocks(manual, true)})) violations.push_back(line);
    const std::ptrdiff_t lines = std::count(manual.text.begin(), manual.text.end(), '\n');
    if (manual.path == "README.md" && lines > kMostLinesOfTheDoor)
      violations.push_back(manual.path + ": " + std::to_string(lines) +
                           " lines, and 200 are the most; a manual belongs in the README.md of its room");
    for (const std::string& link : dead_links(manual, paths)) violations.push_back(link);
  }
  return violations;
}

std::vector<std::string> unnamed_packages(const std::string& script, const std::string& readme) {
  std::vector<std::string> violations;
  for (const std::string& list : matches(script, "packages=\\(([^)]*)\\)")) {
    std::istringstream words(list);
    for (std::string package; words >> package;) {
      if (readme.find("`" + package + "`") == std::string::npos)
        violations.push_back("README.md: it does not say what the package " + package + " is for");
    }
  }
  return violations;
}

std::vector<std::string> rooms_out_of_order() {
  std::vector<std::string> violations;
  std::set<std::string> above;
  for (const Room& room : rooms()) {
    for (const std::string& seen : room.sees) {
      const bool is_whole =
          seen == "sim" || seen == "gpu" || seen == "verify" || seen == room.folder || room.folder == "tests";
      if (!is_whole && !above.contains(seen))
        violations.push_back(room.folder + " may include " + seen +
                             ", which is below it in the table of rooms");
    }
    above.insert(room.folder);
  }
  return violations;
}

namespace {

/// Returns the first column of a table whose first column is named "code".
std::vector<std::string> codes_of_table(const SourceFile& table) {
  std::vector<std::string> cells;
  if (!table.path.ends_with(".tsv")) return cells;
  for (const std::string& line : lines_with(table.text, {"\t"}))
    if (!line.starts_with('#')) cells.push_back(line.substr(0, line.find('\t')));
  if (cells.empty() || cells.front() != "code") return {};
  cells.erase(cells.begin());
  return cells;
}

}  // namespace

std::vector<std::string> unprovoked_refusals(const std::vector<SourceFile>& files,
                                             const std::string& refusal_tests) {
  std::set<std::string> codes;
  for (const SourceFile& file : files) {
    if (is_in(file.path, "tests")) continue;
    for (const std::string& code : codes_of_table(file)) codes.insert(code);
    for (const std::string& line : lines_with(file.text, {".code = "})) {
      for (const std::string& code : matches(line, "\\.code = \"([a-z_]+)\"")) codes.insert(code);
    }
    for (const std::string& paragraph : matches(file.text, "\n/// Errors((?:[^\n]*)(?:\n///    [^\n]*)*)")) {
      for (const std::string& code : matches(paragraph, "\\b([a-z]+(?:_[a-z]+)+)\\b(?!\\.h)"))
        codes.insert(code);
    }
  }
  std::vector<std::string> violations;
  for (const std::string& code : codes) {
    if (refusal_tests.find("\"" + code + "\"") == std::string::npos)
      violations.push_back(code + ": no refusal test provokes this code");
  }
  return violations;
}

}  // namespace test
