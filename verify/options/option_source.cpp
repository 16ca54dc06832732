#include "verify/options/option_source.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "verify/options/nearest_name.h"
#include "verify/options/option_vocabulary.h"

namespace po = boost::program_options;

namespace verify {

namespace {

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const OptionInfo& option : option_vocabulary()) names.emplace_back(option.name);
  return names;
}

void describe(const OptionInfo& option, po::options_description& part) {
  auto add = part.add_options();
  switch (option.kind) {
    case OptionKind::flag:
      add(option.name, po::value<std::string>()->implicit_value("true"), help_of(option).c_str());
      break;
    case OptionKind::size:
    case OptionKind::count:
    case OptionKind::number:
      add(option.name, po::value<std::string>()->value_name("N"), help_of(option).c_str());
      break;
    case OptionKind::numbers:
      add(option.name, po::value<std::vector<std::string>>()->multitoken()->value_name("N..."),
          help_of(option).c_str());
      break;
    case OptionKind::choice:
    case OptionKind::text:
    case OptionKind::texts:
    case OptionKind::words:
      add(option.name, po::value<std::string>()->value_name("TEXT"), help_of(option).c_str());
      break;
  }
}

}  // namespace

po::options_description describe_options() {
  po::options_description all(110);
  std::vector<std::string> sections;
  for (const OptionInfo& option : option_vocabulary()) {
    if (std::find(sections.begin(), sections.end(), option.section) == sections.end()) {
      sections.emplace_back(option.section);
    }
  }
  for (const std::string& section : sections) {
    po::options_description part(section, 110);
    for (const OptionInfo& option : option_vocabulary()) {
      if (section == option.section) describe(option, part);
    }
    all.add(part);
  }
  return all;
}

void refuse_unknown_option(const std::string& option, const std::string& where) {
  const std::size_t name_start = option.find_first_not_of('-');
  const std::string name = name_start == std::string::npos ? "" : option.substr(name_start);
  const std::vector<std::string> names = option_names();
  if (option == "--" + name && std::find(names.begin(), names.end(), name) != names.end()) {
    sim::refuse({.code = "unknown_option",
                 .option = option,
                 .numbers = "it follows '--'",
                 .rule = "words after '--' are a command and scenarios, not options",
                 .hint = option + " before '--'"});
  }
  const std::string nearest = nearest_name(name, names);
  sim::refuse({.code = "unknown_option",
               .option = option,
               .numbers = fmt::format("there is no such option{}", where),
               .rule = "option names are written in full; scenario files use the same names without '--'",
               .hint = nearest.empty() ? "shardproof --help" : (where.empty() ? "--" : "") + nearest});
}

void OptionCollector::add(const std::string& name, const std::vector<std::string>& values) {
  const OptionInfo& option = option_named(name);
  for (const std::string& value : values) {
    if (!value.starts_with("--")) continue;  // Boost takes a following option as the value
    sim::refuse(
        {.code = "missing_value",
         .option = "--" + name,
         .numbers = fmt::format("'{}' follows instead of a value{}", value, where_),
         .rule = "an option is written --option value or --option=value, a flag --flag or --flag=false",
         .hint = fmt::format("a value after --{}", name)});
  }
  const bool repeatable = option.kind == OptionKind::texts || option.kind == OptionKind::words;
  if (settings_.has(name) && !repeatable) {
    sim::refuse(
        {.code = "given_twice",
         .option = "--" + name,
         .numbers = fmt::format("it is given as '{}' and again as '{}'{}",
                                fmt::join(settings_.given(name), " "), fmt::join(values, " "), where_),
         .rule = "an option is given at most once",
         .hint = "keep one of them"});
  }
  const std::string alone =
      option.kind == OptionKind::flag ? "true" : "";  // the value of an option that is given without one
  settings_.append(name, values.empty() ? std::vector<std::string>{alone} : values);
}

}  // namespace verify
