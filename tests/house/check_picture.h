#pragma once

/// The picture of one check's way: what `shardproof check --case column_parallel_linear --property serial`
/// does from the command line to its row, step by step. Each step names a function, the file that defines it,
/// and the words in another step's file that call it, so that the sources can be asked whether it is true.

#include <string>
#include <vector>

#include "tests/house/source_files.h"

namespace test {

std::string check_picture();

/// Finds steps that are not true of the sources: a file that is missing, a function that its file does not
/// define, and a call that the caller's file does not make.
std::vector<std::string> untrue_steps(const std::vector<SourceFile>& files);

}  // namespace test
