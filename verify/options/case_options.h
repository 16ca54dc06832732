#pragma once

/// What the user said of cases: which of them, which properties and dtypes, or one setting to the last
/// number. The names are looked up where cases are known (verify/properties/case_request.h).

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verify {

class Settings;
struct CommandLine;

struct CaseOptions {
  std::vector<std::string> cases;       // empty: all
  std::vector<std::string> properties;  // empty: all
  std::vector<std::string> dtypes;      // empty: all
  std::optional<std::int64_t> runs;     // draws for each case and property
  std::uint64_t seed = 0;
  std::optional<std::int64_t> max_world;
  std::optional<std::string> dimensions;  // of one setting: "tokens=1,hidden=2"
  std::int64_t world_size = 1;
  std::int64_t tensor_model_parallel_size = 1;
};

CaseOptions case_options(const Settings& settings);
CaseOptions case_options(const CommandLine& line);

/// Options by name, as they are written into a scenario and onto a command line.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

/// " --world-size 16 --case mlp", quoted for a shell, sorted by name.
std::string command_line_of(const NamedValues& values);

}  // namespace verify
