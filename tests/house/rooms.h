#pragma once

/// The rooms of the tree. A room is a folder of sources, with the other folders whose headers it may include.
/// The rules of the house hold the sources to this table (house_rules.h).
///
/// Calls   A new room is a row of the table in rooms.cpp. A folder of sources that is in no row breaks a
///         rule.

#include <string>
#include <vector>

#include "tests/house/source_files.h"

namespace test {

struct Room {
  std::string folder;
  std::vector<std::string> sees;
};

/// Returns the table. Each room may include only rooms above it, so there are no circles.
const std::vector<Room>& rooms();

/// Returns the room that a file is in, or null if its folder is not a room. Folders below tests/ belong to
/// the room tests; every other folder must be a room itself.
const Room* room_of(const std::string& path);

/// Returns the files of this tree that a file includes, by their path from the root.
std::vector<std::string> included_files(const SourceFile& file);

}  // namespace test
