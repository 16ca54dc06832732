#include "verify/vocabulary/settings.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <sstream>
#include <system_error>

#include "sim/base/refusals.h"
#include "sim/layout/size_rules.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/vocabulary/option_vocabulary.h"
#include "verify/vocabulary/spelled_values.h"

namespace verify {

namespace {

std::int64_t parse_number(const std::string& name, const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  const bool is_number = stop == end && !text.empty() && error != std::errc::invalid_argument;
  if (!is_number) refuse_number(name, text, "the value is a whole number in decimal digits");
  if (error == std::errc::result_out_of_range || value > kLargest || value < -kLargest)
    refuse_by("number_range", "--" + name, text, -kLargest, kLargest);
  return value;
}

}  // namespace

void Settings::append(const std::string& name, const std::vector<std::string>& values) {
  std::vector<std::string>& all = values_[name];
  all.insert(all.end(), values.begin(), values.end());
}

bool Settings::has_any_of(std::string_view section) const {
  return std::any_of(values_.begin(), values_.end(),
                     [&](const auto& value) { return option_named(value.first).section == section; });
}

std::vector<std::string> Settings::given(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

std::optional<std::int64_t> Settings::number(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  const std::int64_t value = parse_number(name, found->second.at(0));
  const OptionKind kind = option_named(name).kind;
  if (kind == OptionKind::size || (kind == OptionKind::count && value != 0))
    sim::require_size("--" + name, value);
  return value;
}

std::vector<std::int64_t> Settings::numbers(const std::string& name) const {
  std::vector<std::int64_t> result;
  for (const std::string& value : texts(name)) result.push_back(parse_number(name, value));
  return result;
}

bool Settings::flag(const std::string& name) const {
  const std::string value = text(name, "false");
  if (value == "true" || value == "false") return value == "true";
  refuse_by("not_a_flag", "--" + name, value);
}

std::string Settings::choice(const std::string& name) const {
  return choice_among(name, all_choices(option_named(name)));
}

std::string Settings::choice_among(const std::string& name, const std::vector<std::string>& choices) const {
  std::string value = text(name, choices.front());
  require_choice(name, value, choices);
  return value;
}

void Settings::check() const {
  sim::Refusals refusals;
  for (const auto& given : values_) refusals.keep([&] { read(given.first); });
  refusals.throw_if_any();
}

void Settings::read(const std::string& name) const {
  switch (option_named(name).kind) {
    case OptionKind::size:
    case OptionKind::count:
    case OptionKind::number:
      number(name);
      break;
    case OptionKind::numbers:
      numbers(name);
      break;
    case OptionKind::flag:
      flag(name);
      break;
    case OptionKind::choice:
      choice(name);
      break;
    case OptionKind::words:  // without choices, whoever reads the words knows them
      for (const std::string& word :
           option_named(name).choices.empty() ? std::vector<std::string>() : texts(name))
        require_choice(name, word, option_named(name).choices);
      break;
    case OptionKind::pair:
    case OptionKind::text:
    case OptionKind::texts:
      break;
  }
}

std::string Settings::text(const std::string& name, const std::string& fallback) const {
  const auto found = values_.find(name);
  return found == values_.end() ? fallback : found->second.at(0);
}

std::vector<std::string> Settings::texts(const std::string& name) const {
  std::vector<std::string> result;
  for (const std::string& value : given(name)) {
    if (option_named(name).kind == OptionKind::texts) {
      result.push_back(value);
      continue;
    }
    // "2,4", "2 4" and "2, 4" are the same list. An empty piece is kept, so that its reader can refuse it.
    std::istringstream pieces(value + ",");
    for (std::string piece; std::getline(pieces, piece, ',');) {
      std::istringstream words(piece);
      const std::size_t before = result.size();
      for (std::string word; words >> word;) result.push_back(word);
      if (result.size() == before) result.emplace_back();
    }
  }
  return result;
}

Settings Settings::overridden_by(const Settings& stronger) const {
  Settings result = *this;
  for (const auto& [name, values] : stronger.values_) result.values_[name] = values;
  return result;
}

std::vector<std::string> Settings::as_options() const {
  std::vector<std::string> options;
  for (const auto& [name, values] : values_) {
    const OptionInfo& option = option_named(name);
    if (option.is_of_a_call()) continue;
    if (option.kind == OptionKind::flag) {
      options.push_back(fmt::format("--{}{}", name, values.at(0) == "true" ? "" : "=" + values.at(0)));
    } else if (option.kind == OptionKind::pair) {
      options.push_back(fmt::format("--{} {}", name, fmt::join(values, " ")));
    } else if (option.kind == OptionKind::numbers) {
      options.push_back(fmt::format("--{} {}", name, fmt::join(texts(name), ",")));
    } else {
      for (const std::string& value : values)
        options.push_back(fmt::format("--{} {}", name, quoted_for_shell(value)));
    }
  }
  return options;
}

std::string Settings::as_scenario() const {
  std::string text;
  for (const auto& [name, values] : values_) {
    const bool is_list = option_named(name).kind == OptionKind::numbers;
    const std::vector<std::string> lines =
        is_list ? std::vector{fmt::format("{}", fmt::join(texts(name), ","))} : values;
    for (const std::string& value : lines) text += fmt::format("{} = {}\n", name, value);
  }
  return text;
}

std::string Settings::as_command_line() const {
  std::string line;
  for (const std::string& option : as_options()) line += " " + option;
  return line;
}

}  // namespace verify
