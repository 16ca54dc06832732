#pragma once

/// The options about cases: the cases, properties and dtypes to check, or one setting with all its numbers.
/// Names are kept as text here; verify/campaign/case_request.h looks them up.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verify {

class Settings;

struct CaseOptions {
  std::vector<std::string> cases;       // empty: all
  std::vector<std::string> properties;  // empty: all
  std::vector<std::string> dtypes;      // empty: all
  std::optional<std::int64_t> runs;     // settings drawn for each case and property
  std::uint64_t seed = 0;
  std::optional<std::int64_t> max_world;
  std::optional<std::string> dimensions;  // those of one setting: "tokens=1,hidden=2"
  std::int64_t world_size = 1;
  std::int64_t tensor_model_parallel_size = 1;
  std::vector<std::string> plants;      // the faults to plant, as they are written
  std::vector<std::string> faults;      // the names of the faults of an exam; empty: all
  std::optional<std::int64_t> threads;  // of a campaign; none: as many as there are cores
};

CaseOptions case_options(const Settings& settings);

/// Options as pairs of name and value, as a scenario file or a command line has them.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

/// Returns options as text for a shell, quoted and sorted by name: " --case mlp --world-size 16".
std::string command_line_of(const NamedValues& values);

}  // namespace verify
