#include "verify/options/command_line.h"

#include <boost/program_options.hpp>
#include <sstream>

#include "sim/base/error.h"
#include "verify/options/option_source.h"

namespace po = boost::program_options;

namespace verify {

namespace {

/// Boost gives an option that takes a list every word up to the next option. Words that end in ".ini" are
/// scenario files even there: they are moved to `scenarios`, and the remaining values are returned.
std::vector<std::string> without_scenarios(const std::vector<std::string>& values,
                                           std::vector<std::string>& scenarios) {
  if (values.size() < 2) return values;
  std::vector<std::string> rest;
  for (const std::string& value : values) (value.ends_with(".ini") ? scenarios : rest).push_back(value);
  return rest;
}

[[noreturn]] void refuse_value(const std::string& option, const std::string& problem) {
  sim::refuse({.code = "missing_value",
               .option = option,
               .numbers = problem,
               .rule = "an option is written --option value or --option=value, a flag --flag or --flag=false",
               .hint = "shardproof --help"});
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  po::options_description known = describe_options();
  known.add_options()("positional", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("positional", -1);
  CommandLine line;
  po::parsed_options parsed(nullptr);
  try {
    namespace style = po::command_line_style;
    parsed = po::command_line_parser(arguments)
                 .options(known)
                 .positional(positional)
                 .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next)
                 .run();
  } catch (const po::unknown_option& error) {
    refuse_unknown_option(error.get_option_name(), "");
  } catch (const po::error_with_option_name& error) {
    refuse_value(error.get_option_name(), error.what());
  } catch (const po::error& error) {
    refuse_value("command line", error.what());
  }
  OptionCollector collector(" on the command line");
  for (const po::option& option : parsed.options) {
    if (option.string_key == "help") {
      line.help = true;
    } else if (option.string_key == "version") {
      line.version = true;
    } else if (option.string_key == "positional" && option.position_key < 0) {
      refuse_unknown_option("--positional", "");
    } else if (option.string_key != "positional") {
      collector.add(option.string_key, without_scenarios(option.value, line.scenarios));
    } else if (option.value.at(0).starts_with('-')) {
      refuse_unknown_option(option.value.at(0), "");  // a word with a single dash is not a scenario
    } else if (line.command.empty()) {
      line.command = option.value.at(0);
    } else {
      line.scenarios.push_back(option.value.at(0));
    }
  }
  line.settings = collector.settings();
  return line;
}

std::string option_help() {
  std::ostringstream help;
  help << describe_options();
  return help.str();
}

}  // namespace verify
