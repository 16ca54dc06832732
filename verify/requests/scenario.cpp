#include "verify/requests/scenario.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstddef>
#include <filesystem>
#include <fmt/format.h>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/output/input_file.h"
#include "verify/output/refusal_table.h"
#include "verify/vocabulary/nearest_name.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace po = boost::program_options;

namespace verify {

namespace {

constexpr std::size_t kMaxScenarioBytes = 1 << 20;

[[noreturn]] void refuse_missing(const std::string& path, std::string what_is_there) {
  const std::string nearest = nearest_name(path, scenario_files());
  refuse_by("scenario_missing", path, what_is_there, nearest.empty() ? "shardproof list" : nearest);
}

std::string read_file(const std::string& path) {
  if (std::string what = what_is_no_plain_file(path); !what.empty()) refuse_missing(path, std::move(what));
  auto [text, problem] = text_of_input(path, kMaxScenarioBytes);
  if (!problem.empty()) refuse_by("scenario_syntax/file", path, problem, kMaxScenarioBytes);
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  std::erase(text, '\r');
  return text;
}

std::string first_comment(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  const std::size_t start = line.find_first_not_of("# ");
  if (!line.starts_with('#') || start == std::string::npos) return "";
  std::string comment = line.substr(start);
  std::replace_if(
      comment.begin(), comment.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return sim::printable_text(comment.starts_with("Source: ") ? comment.substr(8) : comment);
}

/// Puts the settings of a scenario above the options of a run. What follows from the layout of the run
/// follows from the layout of both.
void put_above_run(const RunArguments& document, Scenario& scenario) {
  scenario.run = under_options(run_of(document), scenario.settings);
  scenario.settings =
      with_decreased_batch(scenario.run, scenario.run.settings.overridden_by(scenario.settings));
}

}  // namespace

Scenario read_scenario(const std::string& path) {
  const std::string text = read_file(path);
  Scenario scenario{
      path, sim::printable_text(std::filesystem::path(path).stem().string()), first_comment(text), {}};
  std::istringstream stream(text);
  try {
    for (const po::option& option : po::parse_config_file(stream, describe_options(), true).options) {
      if (option.unregistered && option.string_key.find('.') != std::string::npos) {
        throw po::error(fmt::format("'{}' is in a section", option.string_key));
      }
      if (option.unregistered)
        refuse_unknown_option(option.string_key, " in " + path, "shardproof --help all");
      const OptionInfo& known = option_named(option.string_key);
      if (known.is_of_a_call() || known.section == kRunSection)
        refuse_by("not_in_scenario", option.string_key, path);
      add_given(option.string_key, option.value, " in " + path, scenario.settings);
    }
  } catch (const po::error& error) {
    refuse_by("scenario_syntax/form", path, error.what());
  }
  return scenario;
}

Scenario read_scenario(const std::string& path, const CommandLine& line) {
  Scenario scenario = read_scenario(path);
  scenario.settings = scenario.settings.overridden_by(line.settings);
  put_above_run(line.run, scenario);
  return scenario;
}

Scenario scenario_of(const CommandLine& line) {
  Scenario scenario{.path = "", .name = "command line", .source = "options given", .settings = line.settings};
  if (line.run.is_given()) {
    const bool is_command = line.run.kind == RunFileKind::command;
    scenario.name = is_command ? "command" : std::filesystem::path(line.run.name).filename().string();
    scenario.source = fmt::format("the options of {}", line.run.name);
  }
  put_above_run(line.run, scenario);
  return scenario;
}

Scenario with_settings(const Scenario& scenario, const Settings& settings) {
  RunOfFile run = scenario.run;
  const bool has_batch = run.values.has("global-batch-size") || run.values.has("step-batch-size-schedule");
  if (!has_batch) run.settings.remove("global-batch-size");  // so that the one of `settings` is given
  Scenario changed = scenario;
  changed.run = with_options(run, settings);
  changed.settings = with_decreased_batch(changed.run, settings);
  return changed;
}

bool gives_a_world(const CommandLine& line) { return line.settings.has("world-size") || line.run.is_given(); }

std::string folder_of_program(const std::string& name, const char* in_checkout) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path installed =
      (program.parent_path() / SHARDPROOF_INSTALLED_SCENARIO_DIR).parent_path() / name;
  if (!error && std::filesystem::is_directory(installed, error)) return installed.lexically_normal().string();
  return in_checkout;
}

std::string scenario_folder() { return folder_of_program("scenarios", SHARDPROOF_SCENARIO_DIR); }

namespace {

/// Returns the .ini files below the scenario folder that are in one of the folders that `is_in` wants.
std::vector<std::string> files_in_folders(bool (*is_in)(const std::filesystem::path& folder)) {
  std::vector<std::string> files;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(scenario_folder(), error)) {
    if (entry.path().extension() != ".ini" || !is_in(entry.path().parent_path().filename())) continue;
    const std::filesystem::path near = here.empty() ? "" : entry.path().lexically_relative(here);
    files.push_back(near.empty() || near.string().starts_with("..") ? entry.path().string() : near.string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<std::string> scenario_files() {
  return files_in_folders([](const std::filesystem::path& folder) {
    return folder != "cluster" && folder != "machines" && folder != "faults";
  });
}

std::vector<std::string> catalogue_files() {
  return files_in_folders([](const std::filesystem::path& folder) { return folder == "faults"; });
}

}  // namespace verify
