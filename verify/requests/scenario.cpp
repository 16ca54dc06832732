#include "verify/requests/scenario.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstddef>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/printable_text.h"
#include "verify/megatron_rules/run_of_file.h"
#include "verify/output/input_file.h"
#include "verify/vocabulary/nearest_name.h"
#include "verify/vocabulary/option_source.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace po = boost::program_options;

namespace verify {

namespace {

constexpr std::size_t kMaxScenarioBytes = 1 << 20;

[[noreturn]] void refuse_unreadable(const std::string& path, std::string problem) {
  sim::refuse(
      {.code = "scenario_syntax",
       .option = path,
       .numbers = std::move(problem),
       .rule = fmt::format("a scenario is a readable text file of at most {} bytes", kMaxScenarioBytes),
       .hint = "shardproof list"});
}

[[noreturn]] void refuse_missing(const std::string& path, std::string what_is_there) {
  const std::string nearest = nearest_name(path, scenario_files());
  sim::refuse({.code = "scenario_missing",
               .option = path,
               .numbers = std::move(what_is_there),
               .rule = "scenarios are .ini files, named by their path",
               .hint = nearest.empty() ? "shardproof list" : nearest});
}

std::string read_file(const std::string& path) {
  if (std::string problem = what_is_no_plain_file(path); !problem.empty())
    refuse_missing(path, std::move(problem));
  std::string text(kMaxScenarioBytes + 1, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad() || !file.is_open()) refuse_unreadable(path, "it cannot be read");
  if (text.size() > kMaxScenarioBytes)
    refuse_unreadable(path, fmt::format("it has more than {} bytes", kMaxScenarioBytes));
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

/// Judges the arguments of a run under these settings, which are those of the scenario.
void hold_against(const RunOfFile& run, const Settings& settings, Scenario& scenario) {
  scenario.run = std::make_shared<const RunOfFile>(with_options(run, settings));
  scenario.settings = with_decreased_batch(*scenario.run, settings);
}

/// Puts the options of a run of --from below those that are given beside it. Those that follow from its
/// layout follow from the layout of both.
void put_above_run(const RunOfFile& run, const Settings& given, Scenario& scenario) {
  const RunOfFile changed = with_options(run, run.settings.overridden_by(given));
  hold_against(changed, changed.settings.overridden_by(given), scenario);
}

}  // namespace

Scenario read_scenario(const std::string& path) {
  const std::string text = read_file(path);
  Scenario scenario{
      path, sim::printable_text(std::filesystem::path(path).stem().string()), first_comment(text), {}, {}};
  std::istringstream stream(text);
  OptionCollector collector(" in " + path);
  try {
    for (const po::option& option : po::parse_config_file(stream, describe_options(), true).options) {
      if (option.unregistered && option.string_key.find('.') != std::string::npos) {
        throw po::error(fmt::format("'{}' is in a section", option.string_key));
      }
      if (option.unregistered)
        refuse_unknown_option(option.string_key, " in " + path, "shardproof --help all");
      const OptionInfo& known = option_named(option.string_key);
      if (known.is_of_a_call() || known.section == kRunSection) {
        sim::refuse({.code = "not_in_scenario",
                     .option = option.string_key,
                     .numbers = "it is given in " + path,
                     .rule = "options of the output and of this process are given on the command line only",
                     .hint = fmt::format("--{} on the command line", option.string_key)});
      }
      collector.add(option.string_key, option.value);
    }
  } catch (const po::error& error) {
    sim::refuse(
        {.code = "scenario_syntax",
         .option = path,
         .numbers = error.what(),
         .rule = "a scenario has lines of the form 'name = value', comments after '#', and no sections",
         .hint = "any file in scenarios/ as an example"});
  }
  scenario.settings = collector.settings();
  return scenario;
}

Scenario read_scenario(const std::string& path, const CommandLine& line) {
  Scenario scenario = read_scenario(path);
  scenario.settings = scenario.settings.overridden_by(line.settings);
  if (line.run != nullptr) put_above_run(*line.run, Settings(scenario.settings), scenario);
  return scenario;
}

Scenario scenario_of(const CommandLine& line) {
  Scenario scenario{"", "command line", "options given", line.settings, nullptr};
  if (line.run == nullptr) return scenario;
  put_above_run(*line.run, line.settings, scenario);
  scenario.name = line.run->path.empty()
                      ? "command"
                      : sim::printable_text(std::filesystem::path(line.run->path).filename().string());
  scenario.source = fmt::format("the options of {}", source_name(*line.run));
  return scenario;
}

Scenario with_settings(const Scenario& scenario, const Settings& settings) {
  Scenario changed = scenario;
  changed.settings = settings;
  if (scenario.run == nullptr) return changed;
  RunOfFile run = *scenario.run;
  const bool has_batch = run.judged.has("global-batch-size") || run.judged.has("step-batch-size-schedule");
  if (!has_batch && settings.has("global-batch-size"))
    run.judged.replace("global-batch-size", settings.given("global-batch-size"));
  hold_against(run, settings, changed);
  return changed;
}

bool gives_a_world(const CommandLine& line) { return line.settings.has("world-size") || line.run != nullptr; }

std::string scenario_folder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path installed = program.parent_path() / SHARDPROOF_INSTALLED_SCENARIO_DIR;
  if (!error && std::filesystem::is_directory(installed, error)) return installed.lexically_normal().string();
  return SHARDPROOF_SCENARIO_DIR;
}

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
