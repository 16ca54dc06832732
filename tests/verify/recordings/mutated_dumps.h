#pragma once

/// Jobs of one or two dumps that no recorder writes: valid ones with random changes, and random bytes. Most
/// are small, so that changes come close together. A job is drawn from a seed alone, so that whatever a
/// reader does with it can be repeated.

#include <cstdint>
#include <string>
#include <vector>

namespace test {

/// Returns the bytes of each rank's dump.
std::vector<std::string> mutated_job(std::uint64_t seed);

/// Reads and inspects a job. Returns what is wrong: an exception that is no refusal, or a refusal without a
/// code, a place and a rule. "" where nothing is. `was_read` says whether all were dumps in the end.
std::string problem_of_inspecting(const std::vector<std::string>& job, bool& was_read);

}  // namespace test
