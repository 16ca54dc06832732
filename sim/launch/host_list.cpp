#include "sim/launch/host_list.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <string_view>

#include "sim/base/error.h"

namespace sim {

namespace {

/// A list, from whose beginning its parts are taken.
struct List {
  const std::string& variable;
  const std::string& whole;
  std::string_view rest = whole;

  void require(bool holds, const char* what) const {
    if (holds) return;
    refuse({.code = "host_list",
            .option = variable,
            .numbers = fmt::format("'{}': {}", whole, what),
            .rule = "the list has the form of Slurm: hosts like gpu[01-03,7],login1, tasks like 4(x2),3",
            .hint = "unset the variable and give --master-addr, or start with srun, which sets it"});
  }
  bool takes(char c) {
    const bool has = rest.starts_with(c);
    if (has) rest.remove_prefix(1);
    return has;
  }
  std::string take(const char* characters, bool are_wanted) {
    const std::size_t end = are_wanted ? rest.find_first_not_of(characters) : rest.find_first_of(characters);
    const std::string taken(rest.substr(0, end));
    rest.remove_prefix(taken.size());
    return taken;
  }
  std::string take_number() {
    const std::string number = take("0123456789", true);
    require(!number.empty() && number.size() <= 9, "a number of one to nine digits is missing");
    return number;
  }
};

/// Takes what is left of a bracket behind its opening sign. Returns the first number in it.
std::string take_bracket(List& list) {
  std::string first;
  do {
    const std::string from = list.take_number();
    if (first.empty()) first = from;
    list.require(!list.takes('-') || std::stoi(list.take_number()) >= std::stoi(from), "a range descends");
  } while (list.takes(','));
  list.require(list.takes(']'), "a bracket does not end behind a number");
  return first;
}

std::string take_host(List& list) {
  std::string host = list.take(",[]", false);
  while (list.takes('[')) {
    host += take_bracket(list);
    host += list.take(",[]", false);
  }
  list.require(!host.empty(), "a host has no name");
  return host;
}

}  // namespace

std::string first_host(const std::string& variable, const std::string& text) {
  List list{variable, text};
  std::string first = take_host(list);
  while (list.takes(',')) take_host(list);
  list.require(list.rest.empty(), "a closing bracket has no opening bracket");
  return first;
}

std::vector<int> expand_tasks_per_node(const std::string& variable, const std::string& text) {
  constexpr std::size_t kMostNodes = std::size_t{1} << 20;
  List list{variable, text};
  std::vector<int> tasks;
  do {
    const int each = std::stoi(list.take_number());
    int nodes = 1;
    if (list.takes('(')) {
      list.require(list.takes('x'), "a bracket without x");
      nodes = std::stoi(list.take_number());
      list.require(list.takes(')'), "a bracket does not end behind a number");
    }
    list.require(tasks.size() + static_cast<std::size_t>(nodes) <= kMostNodes, "it has more than 2^20 nodes");
    tasks.insert(tasks.end(), static_cast<std::size_t>(nodes), each);
  } while (list.takes(','));
  list.require(list.rest.empty(), "a number of tasks is followed by something else");
  return tasks;
}

}  // namespace sim
