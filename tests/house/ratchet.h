#pragma once

/// The ratchet: what each room of sim, gpu and verify has in lines, complex functions and floors may only
/// fall. The table ratchet.tsv has a row for each room, with the most that it may have.
///
/// Shapes  the columns are room, lines, complex, floors and why, with a tab between them. `lines` are those
///         of .h, .cpp and .cu files. `complex` are functions with a complexity above 15 (complexity.h).
///         `floors` are the stems (x of x.h and x.cpp) on the longest way down through the includes of the
///         room; those that include each other in a circle stand on one floor.
/// Calls   whoever makes a number rise raises its row in the same commit, and says the reason in `why`.
///         Whoever makes it fall lowers the row: ratchet_rows() returns the rows as they should be.

#include <string>
#include <vector>

#include "tests/house/source_files.h"

namespace test {

/// Finds rooms with more than their row allows; with less by more than 20 lines and 2 %, or by a complex
/// function or a floor; and rooms and rows without each other.
std::vector<std::string> above_or_below_ratchet(const std::vector<SourceFile>& files,
                                                const std::string& table);

/// Returns the table for these files. The reasons are those of `table`.
std::string ratchet_rows(const std::vector<SourceFile>& files, const std::string& table);

}  // namespace test
