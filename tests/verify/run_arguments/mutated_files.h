#pragma once

/// Files that no run has: valid run files with random changes, and random bytes. A file is drawn from a seed
/// alone, so that whatever a reader does with it can be repeated.

#include <cstdint>
#include <string>

namespace test {

/// Returns file number `seed`: a log, a YAML file or a script with up to eight changes, or bytes.
std::string mutated_file(std::uint64_t seed);

/// Reads a file with the reader of its kind and with the reader of logs. Returns what is wrong: an exception
/// that is no refusal, or a refusal without a place, a reason and a rule. "" where nothing is.
std::string problem_of_reading(const std::string& file);

}  // namespace test
