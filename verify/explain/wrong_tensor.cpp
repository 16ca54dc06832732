#include "verify/explain/wrong_tensor.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "verify/output/phrases.h"
#include "verify/properties/assembled.h"
#include "verify/properties/bench.h"

namespace verify {

namespace {

using sim::Field;

/// Whether an output is an input of the layer: the reference read a matrix of its name, or of its name after
/// a dot ("linear.weight"), and returns it as it is.
bool is_an_input(const ComparedRun& run, const std::string& output, const FieldWhole& serial) {
  return std::ranges::any_of(run.inputs.matrices, [&](const auto& input) {
    const auto& [name, values] = input;
    const bool is_named = name == output || name.ends_with("." + output);
    return is_named && values.rows() == serial.rows() && values.cols() == serial.cols() && values == serial;
  });
}

/// Puts a rank's part over the whole, and marks its elements. Returns whether it differs from the serial one.
bool put_part(WrongTensor& tensor, const std::vector<Field>& own, const std::vector<std::size_t>& places,
              bool is_shown) {
  bool is_wrong = false;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::size_t at = places[i];
    if (own[i] == tensor.serial.data()[at]) continue;
    is_wrong = true;
    if (is_shown) tensor.got[at] = own[i];
  }
  return is_wrong;
}

/// Compares the parts and copies of all ranks. A rank that is wrong is shown, unless one before it has the
/// same part and is wrong, too.
void compare_parts(WrongTensor& tensor) {
  const ComparedRun& run = *tensor.run;
  const int group = run.setting.group_size;
  const int parts = tensor.output.parts(group);
  const int ranks = tensor.output.part_of.empty() ? group : static_cast<int>(tensor.output.part_of.size());
  std::set<int> shown;
  std::vector<int> holders(tensor.got.size(), 0);
  tensor.got.assign(tensor.serial.data(), tensor.serial.data() + tensor.serial.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const int part = tensor.output.part(rank, group);
    if (part < 0) continue;
    tensor.ranks.insert(rank);
    const sim::Published& published = *run.report.find(rank, tensor.output.name);
    const auto places = places_in_whole(tensor.output, extent_of(published.shape), part, parts);
    for (const std::size_t at : places) {
      tensor.owner[at] = holders[at]++ == 0 ? rank : -1;
    }
    const std::vector<Field> own = values_of<Field>(published);
    if (!put_part(tensor, own, places, !shown.contains(part))) continue;
    tensor.wrong_ranks.insert(rank);
    shown.insert(part);
  }
}

/// Finds the elements of a sum of which only one rank has a term.
void find_owners_of_terms(WrongTensor& tensor) {
  const ComparedRun& run = *tensor.run;
  const int group = run.setting.group_size;
  const int parts = tensor.output.parts(group);
  const int ranks = tensor.output.part_of.empty() ? group : static_cast<int>(tensor.output.part_of.size());
  std::vector<int> holders(tensor.got.size(), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const int part = tensor.output.part(rank, group);
    const bool is_copy = tensor.output.placement == Placement::replicated;
    if (part < 0 || (is_copy && part != 0)) continue;
    tensor.ranks.insert(rank);
    const sim::Published& published = *run.report.find(rank, tensor.output.name);
    const auto places = places_in_whole(tensor.output, extent_of(published.shape), part, parts);
    const std::vector<Field> own = values_of<Field>(published);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own[i] == Field::of(0)) continue;
      tensor.owner[places[i]] = holders[places[i]]++ == 0 ? rank : -1;
    }
  }
  for (std::size_t i = 0; i < tensor.got.size(); ++i) {
    if (tensor.got[i] == tensor.serial.data()[i]) continue;
    if (tensor.owner[i] < 0) return tensor.wrong_ranks.clear();
    tensor.wrong_ranks.insert(tensor.owner[i]);
  }
}

}  // namespace

ComparedRun compared_run(Bench& bench, const Case& the_case, const CaseSetting& setting,
                         const sim::RunReport& report) {
  ComparedRun run{the_case, setting, report, reference::Number<Field>(bench.tower(the_case, setting))};
  run.serial = the_case.serial(Inputs<Field>(setting, run.number, nullptr, &run.inputs), setting);
  return run;
}

bool WrongTensor::has_no_value() const { return std::ranges::none_of(got, has_value); }

bool WrongTensor::lacks_a_value() const {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (has_value(serial.data()[i]) && !has_value(got[i])) return true;
  }
  return false;
}

std::size_t WrongTensor::count_wrong() const {
  return static_cast<std::size_t>(std::ranges::count(is_wrong, true));
}

std::vector<std::size_t> WrongTensor::judged() const {
  std::vector<std::size_t> elements;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool is_other = owner[i] >= 0 && !wrong_ranks.empty() && !wrong_ranks.contains(owner[i]);
    if (!is_other) elements.push_back(i);
  }
  return elements;
}

WrongTensor compared_tensor(const ComparedRun& run, const CaseOutput& output) {
  Assembled<Field> got = assembled<Field>(run.report, output, run.setting.group_size);
  WrongTensor tensor{.run = &run,
                     .output = output,
                     .rows = got.rows,
                     .columns = got.columns,
                     .got = std::move(got.values),
                     .serial = run.serial.at(output.name)};
  tensor.owner.assign(tensor.got.size(), -1);
  if (output.is_sum()) {
    find_owners_of_terms(tensor);
  } else {
    compare_parts(tensor);
  }
  for (std::size_t i = 0; i < tensor.got.size(); ++i)
    tensor.is_wrong.push_back(!(tensor.got[i] == tensor.serial.data()[i]));
  tensor.is_input = is_an_input(run, output.name, tensor.serial);
  return tensor;
}

std::shared_ptr<const sim::RunReport> fit_run(Bench& bench, const Case& the_case,
                                              const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  const bool is_fit = run->ok() && check_outputs(*run, the_case.outputs(setting), setting.dtype).empty();
  return is_fit ? run : nullptr;
}

WrongTensors wrong_tensors(const ComparedRun& run) {
  WrongTensors all;
  std::vector<CaseOutput> outputs = run.the_case.outputs(run.setting);
  const auto serial_of = [&](const CaseOutput& output) { return run.serial.find(output.name); };
  std::stable_partition(outputs.begin(), outputs.end(), [&](const CaseOutput& output) {
    const auto serial = serial_of(output);
    return serial != run.serial.end() && is_an_input(run, output.name, serial->second);
  });
  for (const CaseOutput& output : outputs) {
    const auto serial = serial_of(output);
    if (serial == run.serial.end()) {
      all.without_reference = output.name;
      return all;
    }
    const Assembled<Field> got = assembled<Field>(run.report, output, run.setting.group_size);
    if (got.rows != serial->second.rows() || got.columns != serial->second.cols()) return all;
    WrongTensor tensor = compared_tensor(run, output);
    if (tensor.count_wrong() > 0) {
      all.wrong.push_back(std::move(tensor));
    } else if (all.wrong.empty()) {
      all.right.push_back(output.name);
    }
  }
  return all;
}

std::string text_of_ranks(const std::set<int>& ranks, std::size_t all) {
  if (ranks.size() == all) return all == 1 ? "the only rank" : "all ranks";
  return ranks_words({ranks.begin(), ranks.end()});
}

}  // namespace verify
