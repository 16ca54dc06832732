#pragma once

/// Dumps that no recorder writes: valid ones with random changes, and random bytes. A dump is drawn from a
/// seed alone, so that whatever a reader does with it can be repeated.

#include <cstdint>
#include <string>

namespace test {

std::string mutated_dump(std::uint64_t seed);

/// Reads and inspects a dump. Returns what is wrong: an exception that is no refusal, or a refusal without a
/// code, a place and a rule. "" where nothing is. `was_read` says whether it was a dump in the end.
std::string problem_of_inspecting(const std::string& bytes, bool& was_read);

}  // namespace test
