#include "sim/launch/host_list.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <optional>

#include "sim/base/error.h"

namespace sim {

namespace {

constexpr std::size_t kMostHosts = std::size_t{1} << 20;
constexpr std::size_t kLongestHost = 255;

struct List {
  const std::string& variable;
  std::string_view text;

  [[noreturn]] void refused(const std::string& what) const {
    refuse({.code = "host_list",
            .option = variable,
            .numbers = fmt::format("'{}': {}", text, what),
            .rule = "the list has the form of Slurm: hosts like gpu[01-03,7],login1, tasks like 4(x2),3",
            .hint = "unset the variable and give --master-addr, or start with srun, which sets it"});
  }
};

/// Returns the number that the text is. It must consist of one to nine digits, so that 32 bits hold it.
std::optional<int> number_of(std::string_view digits) {
  if (digits.empty() || digits.size() > 9) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
}

/// Splits the list at the commas that stand outside brackets.
std::vector<std::string_view> pieces(const List& list) {
  std::vector<std::string_view> found;
  bool in_brackets = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < list.text.size(); ++i) {
    const char c = list.text[i];
    if (c == '[') {
      if (in_brackets) list.refused("a bracket stands inside a bracket");
      in_brackets = true;
    } else if (c == ']') {
      if (!in_brackets) list.refused("a closing bracket has no opening bracket");
      in_brackets = false;
    } else if (c == ',' && !in_brackets) {
      found.push_back(list.text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (in_brackets) list.refused("an opening bracket has no closing bracket");
  found.push_back(list.text.substr(begin));
  return found;
}

/// Expands "01-03,7" to 01, 02, 03, 7.
std::vector<std::string> expand_ranges(const List& list, std::string_view ranges) {
  std::vector<std::string> numbers;
  for (std::size_t begin = 0; begin <= ranges.size();) {
    const std::size_t comma = std::min(ranges.find(',', begin), ranges.size());
    const std::string_view range = ranges.substr(begin, comma - begin);
    const std::string_view first = range.substr(0, range.find('-'));
    const std::string_view last = first.size() < range.size() ? range.substr(first.size() + 1) : first;
    const std::optional<int> from = number_of(first);
    const std::optional<int> to = number_of(last);
    if (!from || !to || *to < *from) list.refused(fmt::format("'{}' is not a range of numbers", range));
    if (numbers.size() + static_cast<std::size_t>(*to - *from) >= kMostHosts)
      list.refused("it has more than 2^20 hosts");
    for (int number = *from; number <= *to; ++number) {
      numbers.push_back(fmt::format("{:0>{}}", number, first.size()));
    }
    begin = comma + 1;
  }
  return numbers;
}

/// Expands one name, which may have any number of brackets.
std::vector<std::string> expand_name(const List& list, std::string_view name) {
  std::vector<std::string> hosts = {""};
  while (!name.empty()) {
    const std::size_t open = std::min(name.find('['), name.size());
    std::vector<std::string> endings = {""};
    std::size_t used = open;
    if (open < name.size()) {
      const std::size_t close = name.find(']', open);
      endings = expand_ranges(list, name.substr(open + 1, close - open - 1));
      used = close + 1;
    }
    if (hosts.size() * endings.size() > kMostHosts) list.refused("it has more than 2^20 hosts");
    std::vector<std::string> longer;
    for (const std::string& host : hosts) {
      for (const std::string& ending : endings) {
        longer.push_back(host + std::string(name.substr(0, open)) + ending);
        if (longer.back().size() > kLongestHost) list.refused("a host name has more than 255 characters");
      }
    }
    hosts = std::move(longer);
    name.remove_prefix(used);
  }
  return hosts;
}

}  // namespace

std::vector<std::string> expand_host_list(const std::string& variable, std::string_view text) {
  const List list{variable, text};
  std::vector<std::string> hosts;
  for (const std::string_view name : pieces(list)) {
    if (name.empty()) list.refused("a host has no name");
    for (std::string& host : expand_name(list, name)) hosts.push_back(std::move(host));
    if (hosts.size() > kMostHosts) list.refused("it has more than 2^20 hosts");
  }
  return hosts;
}

std::vector<int> expand_tasks_per_node(const std::string& variable, std::string_view text) {
  const List list{variable, text};
  std::vector<int> tasks;
  for (const std::string_view piece : pieces(list)) {
    const std::string_view count = piece.substr(0, piece.find('('));
    std::string_view times = piece.substr(count.size());
    std::optional<int> nodes = 1;
    if (!times.empty()) {
      const bool is_repeat = times.starts_with("(x") && times.ends_with(")");
      nodes = is_repeat ? number_of(times.substr(2, times.size() - 3)) : std::nullopt;
    }
    const std::optional<int> each = number_of(count);
    if (!each || !nodes) list.refused(fmt::format("'{}' is not a number of tasks", piece));
    if (tasks.size() + static_cast<std::size_t>(*nodes) > kMostHosts)
      list.refused("it has more than 2^20 nodes");
    tasks.insert(tasks.end(), static_cast<std::size_t>(*nodes), *each);
  }
  return tasks;
}

}  // namespace sim
