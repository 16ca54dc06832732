#include "tests/house/ratchet.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "tests/house/complexity.h"
#include "tests/house/rooms.h"

namespace test {

namespace {

constexpr int kMostComplexity = 15;

struct Row {
  std::array<int, 3> numbers = {};  // lines, complex functions, floors
  std::string why = {};
};
using Rows = std::map<std::string, Row>;  // by room
constexpr std::array kNames = {"lines", "functions with a complexity above 15", "floors"};

using Includes = std::map<std::string, std::set<std::string>>;  // by stem: those of its room that it includes

void add_below(const Includes& includes, const std::string& stem, std::set<std::string>& below) {
  for (const std::string& one : includes.at(stem)) {
    if (below.insert(one).second) add_below(includes, one, below);
  }
}

/// Returns the floors of a room. A stem stands above those that it includes and that do not include it.
int floors_of(const Includes& includes) {
  std::map<std::string, std::set<std::string>> below;
  std::vector<std::string> stems;
  for (const auto& [stem, own] : includes) {
    add_below(includes, stem, below[stem]);
    stems.push_back(stem);
  }
  // From below: one that includes a circle has as many below it as those in the circle, and stands above them.
  std::sort(stems.begin(), stems.end(), [&](const std::string& a, const std::string& b) {
    const auto place = [&](const std::string& stem) {
      return std::pair(below.at(stem).size(), !below.at(stem).contains(stem));
    };
    return place(a) < place(b);
  });
  std::map<std::string, int> floors;
  int most = 0;
  for (const std::string& stem : stems) {
    int floor = 1;
    for (const std::string& one : below.at(stem)) {
      if (!below.at(one).contains(stem)) floor = std::max(floor, floors[one] + 1);
    }
    floors[stem] = floor;
    most = std::max(most, floor);
  }
  return most;
}

std::string stem_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

Rows rows_of(const std::vector<SourceFile>& files) {
  Rows rows;
  std::map<std::string, Includes> includes;  // by room
  for (const SourceFile& file : files) {
    const Room* room = room_of(file.path);
    if (room == nullptr || room->folder == "tests") continue;
    auto& [lines, complex, floors] = rows[room->folder].numbers;
    lines += static_cast<int>(std::count(file.text.begin(), file.text.end(), '\n'));
    for (const FunctionComplexity& function : complexities_of(file.text))
      complex += function.complexity > kMostComplexity ? 1 : 0;
    std::set<std::string>& own = includes[room->folder][stem_of(file.path)];
    for (const std::string& included : included_files(file)) {
      if (room_of(included) == room) own.insert(stem_of(included));
    }
  }
  for (auto& [room, of_room] : includes) {
    Includes whole = of_room;
    for (const auto& [stem, own] : of_room) {
      for (const std::string& one : own) whole.try_emplace(one);  // also what no file is
    }
    rows[room].numbers[2] = floors_of(whole);
  }
  return rows;
}

Rows read_rows(const std::string& table) {
  Rows rows;
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);  // the names of the columns
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string room;
    Row row;
    words >> room >> row.numbers[0] >> row.numbers[1] >> row.numbers[2];
    std::getline(words >> std::ws, row.why);
    rows[room] = row;
  }
  return rows;
}

}  // namespace

std::vector<std::string> above_or_below_ratchet(const std::vector<SourceFile>& files,
                                                const std::string& table) {
  const Rows now = rows_of(files), allowed = read_rows(table);
  std::vector<std::string> violations;
  for (const auto& [room, row] : allowed) {
    if (!now.contains(room)) violations.push_back(room + ": it has a row in ratchet.tsv, and no file");
  }
  for (const auto& [room, row] : now) {
    if (!allowed.contains(room)) {
      violations.push_back(room + ": it has no row in ratchet.tsv");
      continue;
    }
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const int most = allowed.at(room).numbers[i];
      const int slack = i == 0 ? std::max(20, most / 50) : 0;
      const char* const what = row.numbers[i] > most           ? "its row allows"
                               : row.numbers[i] < most - slack ? "lower its row, which still has"
                                                               : nullptr;
      if (what != nullptr)
        violations.push_back(fmt::format("{}: {} {}; {} {}", room, row.numbers[i], kNames[i], what, most));
    }
  }
  return violations;
}

std::string ratchet_rows(const std::vector<SourceFile>& files, const std::string& table) {
  Rows rows = rows_of(files), old = read_rows(table);
  std::string text = "room\tlines\tcomplex\tfloors\twhy\n";
  for (const Room& room : rooms()) {
    if (!rows.contains(room.folder)) continue;
    const auto& [lines, complex, floors] = rows[room.folder].numbers;
    text += fmt::format("{}\t{}\t{}\t{}\t{}\n", room.folder, lines, complex, floors, old[room.folder].why);
  }
  return text;
}

}  // namespace test
