#pragma once

/// The house rules, as functions of source text, so that tests can show each of them a planted violation.
/// Each returns one line for every violation: the file, and what is wrong with it.

#include <set>
#include <string>
#include <vector>

#include "tests/house/source_files.h"

namespace test {

/// Finds includes that a folder may not have. The table of rooms (rooms.h) says which folders each folder may
/// include.
std::vector<std::string> include_direction(const std::vector<SourceFile>& files);

/// Finds names with which a result would depend on chance or on the machine, and hand-written tolerances.
std::vector<std::string> banned_names(const std::vector<SourceFile>& files);

/// Finds headers that do not open with a manual.
std::vector<std::string> headers_without_manual(const std::vector<SourceFile>& files);

/// Finds types that two files define under one name in one namespace. A linker keeps one destructor, or one
/// function of a container of them, for both. Code of gpu/on_host stands in for code of gpu/cuda and is not
/// linked with it; the sources of tests/outside are a program of their own.
std::vector<std::string> types_defined_twice(const std::vector<SourceFile>& files);

/// Finds sources that no target compiles, and headers that nothing includes.
std::vector<std::string> unbuilt_files(const std::vector<SourceFile>& files,
                                       const std::string& compile_commands);

/// Finds files outside the known folders of scenarios/, its manual apart, and scenarios that do not name
/// their source in the first line.
std::vector<std::string> scenario_rules(const std::vector<SourceFile>& scenarios);

/// Finds lines of more than 110 columns.
std::vector<std::string> long_lines(const std::vector<SourceFile>& files);

/// Finds what is wrong with the manuals, which are the .md files: lines of more than 110 columns, except the
/// output of a program in a console block, which is shown as it is printed; a README.md in the root of more
/// than 200 lines; and links, and paths in `back quotes`, that lead nowhere. `paths` has all files and
/// folders of the checkout.
std::vector<std::string> manual_rules(const std::vector<SourceFile>& manuals,
                                      const std::set<std::string>& paths);

/// Finds packages of the list in the script `shardproof` that README.md does not name in `back quotes`.
std::vector<std::string> unnamed_packages(const std::string& script, const std::string& readme);

/// Finds rooms of the table (rooms.h) that may include a room further down in the table, which
/// would allow a circle.
std::vector<std::string> rooms_out_of_order();

/// Finds error codes that the sources or the tables of rules refuse with, or that a manual lists under Errors,
/// but that the refusal tests never provoke.
std::vector<std::string> unprovoked_refusals(const std::vector<SourceFile>& files,
                                             const std::string& refusal_tests);

}  // namespace test
