#include "tests/support/request.h"

namespace test {

namespace {

verify::CommandLine line_of(const verify::NamedValues& options) {
  std::vector<std::string> words = {"replay"};
  for (const auto& [name, value] : options) words.push_back("--" + name + "=" + value);
  return verify::parse_command_line(words);
}

}  // namespace

verify::ScenarioRequest scenario_request(const verify::NamedValues& options) {
  return verify::scenario_request(verify::scenario_of(line_of(options)));
}

verify::CaseOptions case_options(const verify::NamedValues& options) {
  return verify::case_options(line_of(options).settings);
}

}  // namespace test
