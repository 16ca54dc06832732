#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <utility>
#include <vector>

#include "verify/explain/recognisers.h"
#include "verify/output/phrases.h"

namespace verify {

namespace {

using sim::Field;

/// Whether a tensor of the ranks is the one that the reference has returned.
bool is_in(const Wholes<Field>& wholes, const WrongTensor& tensor) {
  const auto found = wholes.find(tensor.output.name);
  if (found == wholes.end()) return false;
  const FieldWhole& other = found->second;
  if (other.rows() != tensor.rows || other.cols() != tensor.columns) return false;
  const auto elements = tensor.judged();
  return std::ranges::all_of(elements, [&](std::size_t i) { return tensor.got[i] == other.data()[i]; });
}

/// Whether the ranks have what the reference returns at this setting with this change.
bool fits(const WrongTensor& tensor, const CaseSetting& setting, const InputChange& change,
          ExperimentBudget& budget) {
  if (!budget.takes_one()) return false;
  const ComparedRun& run = *tensor.run;
  return is_in(run.the_case.serial(Inputs<Field>(setting, run.number, &change), setting), tensor);
}
bool fits(const WrongTensor& tensor, const InputChange& change, ExperimentBudget& budget) {
  return fits(tensor, tensor.run->setting, change, budget);
}

// ---- another option

std::string another_option(const WrongTensor& tensor, ExperimentBudget& budget) {
  constexpr std::int64_t kMostValues = 10;
  const CaseSetting& setting = tensor.run->setting;
  std::vector<std::string> options;
  for (const Dimension& dimension : tensor.run->the_case.dimensions()) {
    if (dimension.is_an_axis || dimension.is_a_rank || dimension.most - dimension.least >= kMostValues)
      continue;
    for (std::int64_t value = dimension.least; value <= dimension.most; ++value) {
      // What is counted from 1 on may have been cut; that it was raised is no mistake that anybody makes.
      const std::int64_t own = setting[dimension.name];
      if (value == own || (dimension.least > 0 && value > own)) continue;
      CaseSetting other = setting;
      other.dimensions[dimension.name] = value;
      if (!fits(tensor, other, {}, budget)) continue;
      options.push_back(fmt::format("{} {} gives, and {} is {} here", dimension.name, value, dimension.name,
                                    setting[dimension.name]));
      break;
    }
  }
  constexpr std::size_t kMostOptions = 2;
  if (options.empty() || options.size() > kMostOptions) return "";
  return fmt::format("it is what {}", fmt::join(options, "; or what "));
}

// ---- inputs that count otherwise

/// Returns "row 3" or "columns 4 to 7".
std::string text_of_lines(const char* noun, Eigen::Index first, Eigen::Index last) {
  return first == last ? fmt::format("{} {}", noun, first) : fmt::format("{}s {} to {}", noun, first, last);
}

std::string text_of_factor(std::int64_t factor, const CaseSetting& setting) {
  if (factor == 0) return " had no part in it: that term is missing";
  if (factor == setting.group_size)
    return fmt::format(" counted {} ({}) times", name_of(setting.ranks), factor);
  return factor == 2 ? " counted twice" : " counted with the other sign";
}

std::set<std::int64_t> factors_of(const CaseSetting& setting) {
  std::set<std::int64_t> factors = {0, 2, -1};
  if (setting.group_size > 1 && setting.ranks != Ranks::world) factors.insert(setting.group_size);
  return factors;
}

std::string text_of_part(const std::string& name, const FieldWhole& input, const InputChange& change) {
  const bool of_rows = change.axis == InputChange::Axis::rows;
  const Eigen::Index lines = (of_rows ? input.rows() : input.cols()) / change.parts;
  return fmt::format(
      "{} of {}, rank {}'s part,",
      text_of_lines(of_rows ? "row" : "column", change.part * lines, (change.part + 1) * lines - 1), name,
      change.part);
}

std::string an_input_counts_otherwise(const WrongTensor& tensor, ExperimentBudget& budget) {
  const CaseSetting& setting = tensor.run->setting;
  const int tp = setting.group_size;
  for (const auto& [name, input] : tensor.run->inputs.matrices) {
    for (const std::int64_t factor : factors_of(setting)) {
      InputChange change{.names = {name}, .factor = factor};
      if (fits(tensor, change, budget)) return name + text_of_factor(factor, setting);
      for (const auto axis : {InputChange::Axis::rows, InputChange::Axis::columns}) {
        const Eigen::Index lines = axis == InputChange::Axis::rows ? input.rows() : input.cols();
        if (tp == 1 || lines % tp != 0 || setting.ranks == Ranks::world) continue;
        for (int part = 0; part < tp; ++part) {
          change = {.names = {name}, .axis = axis, .part = part, .parts = tp, .factor = factor};
          if (fits(tensor, change, budget))
            return text_of_part(name, input, change) + text_of_factor(factor, setting);
        }
      }
    }
  }
  return "";
}

/// Returns the first way in which each rank takes the part of an input that belongs to another rank, and has
/// what the ranks have; "" if there is none.
std::string parts_of_other_ranks(const WrongTensor& tensor, const std::string& name, const FieldWhole& input,
                                 ExperimentBudget& budget) {
  const int ranks = tensor.run->setting.group_size;
  for (const auto axis : {InputChange::Axis::rows, InputChange::Axis::columns}) {
    const Eigen::Index lines = axis == InputChange::Axis::rows ? input.rows() : input.cols();
    if (lines % ranks != 0) continue;
    for (int shift = 1; shift < ranks; ++shift) {
      if (!fits(tensor, {.names = {name}, .axis = axis, .parts = ranks, .shift = shift}, budget)) continue;
      return fmt::format("of {}, each rank used the {} of the rank {} after it", name,
                         axis == InputChange::Axis::rows ? "rows" : "columns",
                         shift == 1 ? "one place" : fmt::format("{} places", shift));
    }
  }
  return "";
}

/// A tensor that is a product, as the gradient of a weight is, may have the parts of either factor in other
/// places: every input that does is named.
std::string parts_of_other_ranks(const WrongTensor& tensor, ExperimentBudget& budget) {
  const CaseSetting& setting = tensor.run->setting;
  if (setting.group_size == 1 || setting.ranks == Ranks::world) return "";
  std::vector<std::string> ways;
  for (const auto& [name, input] : tensor.run->inputs.matrices) {
    std::string way = parts_of_other_ranks(tensor, name, input, budget);
    if (!way.empty()) ways.push_back(std::move(way));
  }
  return fmt::format("{}", fmt::join(ways, "; or "));
}

/// The halves of an input, as the gate and the other half of a gated weight are: they are exchanged, or one
/// of them has no part in the tensor.
std::string halves_of_an_input(const WrongTensor& tensor, ExperimentBudget& budget) {
  if (tensor.run->setting.ranks == Ranks::world) return "";
  for (const auto& [name, input] : tensor.run->inputs.matrices) {
    for (const auto axis : {InputChange::Axis::rows, InputChange::Axis::columns}) {
      const bool of_rows = axis == InputChange::Axis::rows;
      if ((of_rows ? input.rows() : input.cols()) % 2 != 0) continue;
      const char* lines = of_rows ? "rows" : "columns";
      if (fits(tensor, {.names = {name}, .axis = axis, .parts = 2, .shift = 1}, budget))
        return fmt::format("the two halves of the {} of {} are exchanged", lines, name);
      for (int part = 0; part < 2; ++part) {
        if (fits(tensor, {.names = {name}, .axis = axis, .part = part, .parts = 2, .factor = 0}, budget))
          return fmt::format("the {} half of the {} of {} had no part in it: that term is missing",
                             part == 0 ? "first" : "second", lines, name);
      }
    }
  }
  return "";
}

// ---- inputs of a number: of a layer, a sample, a step

/// A number in a name: "decoder.layers.3.mlp.linear_fc1.weight" has 3 at place 0, and 1 at place 1.
struct NumberInName {
  std::size_t begin = 0, end = 0;
  std::int64_t value = 0;
};
std::vector<NumberInName> numbers_in(const std::string& name) {
  std::vector<NumberInName> numbers;
  const auto is_digit = [&](std::size_t i) { return std::isdigit(static_cast<unsigned char>(name[i])) != 0; };
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!is_digit(i)) continue;
    const std::size_t begin = i;
    while (i < name.size() && is_digit(i)) ++i;
    numbers.push_back({begin, i, std::stoll(name.substr(begin, i - begin))});
  }
  return numbers;
}

/// The inputs that have one number at one place of their names.
struct Group {
  std::size_t place = 0;
  std::int64_t value = 0;
  std::vector<std::string> names;
  /// Returns "p0.slope.0.1", or "p0.slope.0.1 and 3 more inputs of number 1".
  std::string text() const {
    if (names.size() == 1) return names.front();
    return fmt::format("{} and {} of number {}", names.front(), counted(std::ssize(names) - 1, "more input"),
                       value);
  }
};
std::vector<Group> groups_of(const SeenInputs<Field>& inputs) {
  std::map<std::pair<std::size_t, std::int64_t>, Group> groups;
  for (const auto& [name, values] : inputs.matrices) {
    const auto numbers = numbers_in(name);
    for (std::size_t place = 0; place < numbers.size(); ++place) {
      Group& group = groups[{place, numbers[place].value}];
      group.place = place;
      group.value = numbers[place].value;
      group.names.push_back(name);
    }
  }
  std::vector<Group> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  return all;
}

/// Returns the name with another number at a place.
std::string with_number(const std::string& name, std::size_t place, std::int64_t value) {
  const NumberInName number = numbers_in(name)[place];
  return fmt::format("{}{}{}", name.substr(0, number.begin), value, name.substr(number.end));
}

/// Draws the inputs of one group as those of another. Returns whether all of them have a partner of their
/// shape.
bool draw_as(const SeenInputs<Field>& inputs, const Group& group, std::int64_t value, InputChange& change) {
  for (const std::string& name : group.names) {
    const std::string other = with_number(name, group.place, value);
    const auto partner = inputs.matrices.find(other);
    if (partner == inputs.matrices.end()) return false;
    const FieldWhole& own = inputs.matrices.at(name);
    if (own.rows() != partner->second.rows() || own.cols() != partner->second.cols()) return false;
    change.drawn_as[name] = other;
  }
  return true;
}

std::string a_group_counts_otherwise(const WrongTensor& tensor, ExperimentBudget& budget) {
  for (const Group& group : groups_of(tensor.run->inputs)) {
    if (group.names.size() == tensor.run->inputs.matrices.size()) continue;
    for (const std::int64_t factor : {0, 2}) {
      const InputChange change{.names = {group.names.begin(), group.names.end()}, .factor = factor};
      if (fits(tensor, change, budget)) return group.text() + text_of_factor(factor, tensor.run->setting);
    }
  }
  return "";
}

/// Returns "input 1", the partner of the only input of a group, or "those of number 1".
std::string text_of_partners(const Group& group, std::int64_t value) {
  if (group.names.size() == 1) return with_number(group.names.front(), group.place, value);
  return fmt::format("those of number {}", value);
}

std::string groups_exchanged(const WrongTensor& tensor, ExperimentBudget& budget) {
  const auto& inputs = tensor.run->inputs;
  const std::vector<Group> groups = groups_of(inputs);
  for (const Group& one : groups) {
    for (const Group& other : groups) {
      if (one.place != other.place || one.value == other.value) continue;
      InputChange change;
      if (!draw_as(inputs, one, other.value, change)) continue;
      if (fits(tensor, change, budget))
        return fmt::format("in place of {} it has {}", one.text(), text_of_partners(one, other.value));
      if (other.value < one.value || !draw_as(inputs, other, one.value, change)) continue;
      if (fits(tensor, change, budget))
        return fmt::format("{} {} exchanged with {}", one.text(), one.names.size() == 1 ? "is" : "are",
                           text_of_partners(one, other.value));
    }
  }
  return "";
}

// ---- branches

/// A branch of a sum is left out or counts twice, as that of a residual connection, or of a gradient that
/// comes back through two layers.
std::string a_branch_counts_otherwise(const WrongTensor& tensor, ExperimentBudget& budget) {
  using reference::BranchSums;
  constexpr std::size_t kMostLines = 16;
  const ComparedRun& run = *tensor.run;
  std::vector<BranchSums::Line> lines;
  {
    BranchSums all;
    fits(tensor, InputChange(), budget);
    lines = all.lines();
  }
  if (lines.size() > kMostLines) return "";
  constexpr std::pair<BranchSums::Times, const char*> kTimes[] = {{{0, 1}, "without the first term of"},
                                                                  {{1, 0}, "without the second term of"},
                                                                  {{2, 1}, "with twice the first term of"},
                                                                  {{1, 2}, "with twice the second term of"}};
  for (const BranchSums::Line& line : lines) {
    for (const auto& [times, says] : kTimes) {
      BranchSums changed(line, times);
      if (fits(tensor, run.setting, InputChange(), budget))
        return fmt::format("it is what the reference gives {} the sum at {}:{}", says, line.file_name(),
                           line.line());
    }
  }
  return "";
}

// ---- ids

std::string other_ids(const WrongTensor& tensor, ExperimentBudget& budget) {
  const auto& all = tensor.run->inputs.ids;
  for (const auto& [name, own] : all) {
    for (const auto& [other_name, other] : all) {
      if (name == other_name || own.size() != other.size() || own == other) continue;
      if (fits(tensor, {.ids = {{name, other}}}, budget))
        return fmt::format("{} are those of {}", name,
                           other_name.starts_with("the ") ? other_name.substr(4) : other_name);
    }
  }
  return "";
}

/// Every id of a rank's part of the vocabulary, or every single id, is replaced by a neighbour, or by
/// another.
std::string one_other_id(const WrongTensor& tensor, ExperimentBudget& budget) {
  std::int64_t most = 0, count = 0;
  for (const auto& [name, own] : tensor.run->inputs.ids) {
    for (const std::int64_t id : own) most = std::max(most, id);
    count += std::ssize(own);
  }
  constexpr std::int64_t kMostIds = 24;
  if (count > kMostIds) return "";
  for (const auto& [name, own] : tensor.run->inputs.ids) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      for (std::int64_t id = 0; id <= most; ++id) {
        if (id == own[i]) continue;
        InputChange change{.ids = {{name, own}}};
        change.ids[name][i] = id;
        if (fits(tensor, change, budget))
          return fmt::format("it is as if id {} of {} were {}, and it is {}", i, name, id, own[i]);
      }
    }
  }
  return "";
}

constexpr Recogniser kExperiments[] = {
    {"another option", another_option},
    {"other ids", other_ids},
    {"one other id", one_other_id},
    {"parts of other ranks", parts_of_other_ranks},
    {"groups exchanged", groups_exchanged},
    {"a group counts otherwise", a_group_counts_otherwise},
    {"a branch counts otherwise", a_branch_counts_otherwise},
    {"an input counts otherwise", an_input_counts_otherwise},
    {"halves of an input", halves_of_an_input},
};

}  // namespace

std::span<const Recogniser> experiments() { return kExperiments; }

}  // namespace verify
