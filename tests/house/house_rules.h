#pragma once

/// The house rules as functions over source text, so that each can be shown a planted violation. Each returns
/// one line for every violation: the file, and what is wrong with it.

#include <string>
#include <vector>

namespace test {

struct SourceFile {
  std::string path;  // from the root: "sim/layout/layout.h"
  std::string text;
};

/// Includes that point against the arrows of the house: what each folder may see is a table in
/// house_rules.cpp.
std::vector<std::string> include_direction(const std::vector<SourceFile>& files);

/// Names that would let chance or the machine into a result, and hand-written tolerances.
std::vector<std::string> banned_names(const std::vector<SourceFile>& files);

/// Headers that do not open with the manual of their concept.
std::vector<std::string> headers_without_manual(const std::vector<SourceFile>& files);

/// Sources that no target compiles, and headers that nothing includes.
std::vector<std::string> unbuilt_files(const std::vector<SourceFile>& files,
                                       const std::string& compile_commands);

/// Scenarios that lie in no folder of scenarios/, or do not name their source in the first line.
std::vector<std::string> scenario_rules(const std::vector<SourceFile>& scenarios);

/// Lines of more than 110 columns.
std::vector<std::string> long_lines(const std::vector<SourceFile>& files);

/// Rooms of the table in house_rules.cpp that see one that stands below them, as in a circle.
std::vector<std::string> rooms_out_of_order();

/// Codes that the sources refuse with, or that a manual lists under Errors, and that the refusal tests never
/// provoke.
std::vector<std::string> unprovoked_refusals(const std::vector<SourceFile>& files,
                                             const std::string& refusal_tests);

}  // namespace test
