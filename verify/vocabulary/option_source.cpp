#include "verify/vocabulary/option_source.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstddef>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "verify/output/refusal_table.h"
#include "verify/vocabulary/nearest_name.h"
#include "verify/vocabulary/option_vocabulary.h"

namespace po = boost::program_options;

namespace verify {

namespace {

/// Returns what Boost has to know of an option: whether it takes a value, and how many.
po::value_semantic* value_of(const OptionInfo& option) {
  switch (option.kind) {
    case OptionKind::flag:
      return po::value<std::string>()->implicit_value("true");
    case OptionKind::numbers:
    case OptionKind::pair:
      return po::value<std::vector<std::string>>()->multitoken();
    default:
      return po::value<std::string>();
  }
}

}  // namespace

po::options_description describe_options() {
  po::options_description all;
  for (const OptionInfo& option : option_vocabulary())
    all.add_options()(option.name.c_str(), value_of(option));
  return all;
}

void refuse_unknown_option(const std::string& option, const std::string& where, const std::string& help) {
  const std::size_t name_start = option.find_first_not_of('-');
  const std::string name = name_start == std::string::npos ? "" : option.substr(name_start);
  std::vector<std::string> names;
  for (const OptionInfo& one : option_vocabulary()) names.push_back(one.name);
  const std::string nearest = nearest_name(name, names);
  refuse_by(
      "unknown_option", option, where,
      nearest.empty() ? help : fmt::format("{}{}, or see {}", where.empty() ? "--" : "", nearest, help));
}

void add_given(const std::string& name, const std::vector<std::string>& values, const std::string& where,
               Settings& settings) {
  const OptionInfo& option = option_named(name);
  for (const std::string& value : values) {
    // Boost takes a following option as the value. A word with a blank is none: "--num-layers 32 --bf16".
    if (!value.starts_with("--") || value.find(' ') != std::string::npos) continue;
    refuse_by("missing_value", "--" + name, fmt::format("'{}' follows instead of a value{}", value, where),
              name == "command" ? "the command line of the run behind '--', as in: -- --bf16"
                                : fmt::format("a value after --{}", name));
  }
  const bool repeatable = option.kind == OptionKind::texts || option.kind == OptionKind::words;
  if (settings.has(name) && !repeatable)
    refuse_by("given_twice", "--" + name, fmt::join(settings.given(name), " "), fmt::join(values, " "),
              where);
  const std::string alone =
      option.kind == OptionKind::flag ? "true" : "";  // the value of an option that is given without one
  settings.append(name, values.empty() ? std::vector<std::string>{alone} : values);
}

}  // namespace verify
