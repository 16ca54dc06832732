#pragma once

/// The picture of the rooms: a box for each room, and an arrow to each room that it includes. The boxes come
/// from the table of rooms, the arrows from the #include lines of the sources.
///
/// Shapes  A room stands above every room that it includes. An arrow that two others imply is left out. The
///         width of an arrow says in three steps how many #include lines there are, so that a new line seldom
///         changes the picture.
/// Exact   the same sources give the same bytes.

#include <string>
#include <vector>

#include "tests/house/source_files.h"

namespace test {

std::string room_picture(const std::vector<SourceFile>& files);

}  // namespace test
