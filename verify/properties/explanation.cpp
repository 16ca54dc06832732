#include "verify/properties/explanation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "verify/cases/case_inputs.h"
#include "verify/cases/spread.h"
#include "verify/output/phrases.h"
#include "verify/properties/assembled.h"
#include "verify/properties/published_tensors.h"

namespace verify {

namespace {

using sim::Field;
using Whole = reference::Matrix<Field>;

/// Returns "rank 1", "ranks 0, 1, 3" or "all ranks".
std::string text_of_ranks(const std::vector<int>& ranks, std::size_t all) {
  if (ranks.size() == all) return all == 1 ? "the only rank" : "all ranks";
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

// ---- calls

/// A difference that occurs `times` times on each of these ranks.
struct RanksThatDiffer {
  std::string what;
  int times = 1;
  std::string where;                // its first place on the first rank
  bool is_everywhere_there = true;  // its first place is the same on all these ranks
  std::vector<int> ranks;
};

/// Counts equal differences of one rank as one.
std::vector<RanksThatDiffer> counted_differences(std::vector<CallDifference> differences, int rank) {
  std::vector<RanksThatDiffer> all;
  for (CallDifference& difference : differences) {
    const auto known =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.what == difference.what; });
    if (known == all.end()) {
      all.push_back(
          {.what = std::move(difference.what), .where = std::move(difference.where), .ranks = {rank}});
    } else {
      ++known->times;
    }
  }
  return all;
}

/// Returns "on ranks 0, 2: all_reduce 'mlp.forward' of 24 is missing, 3 times (after ...)". The place is that
/// of the first time.
std::string text_of(const RanksThatDiffer& one, std::size_t all_ranks) {
  const std::string times = one.times == 1 ? "" : fmt::format(", {} times", one.times);
  const std::string of_rank = one.is_everywhere_there ? "" : fmt::format("on rank {} ", one.ranks.front());
  return fmt::format("on {}: {}{} ({}{})", text_of_ranks(one.ranks, all_ranks), one.what, times, of_rank,
                     one.where);
}

/// At most this many differences are put into words: if one parameter differs, many calls of a step do.
constexpr std::size_t kMostPhrases = 4;

/// Returns the expected calls up to where a rank came that did not end. It may have left out or added a few
/// of them: the end that leaves the fewest differences is taken.
std::vector<ExpectedCall> expected_so_far(const std::vector<ExpectedCall>& expected,
                                          const std::vector<sim::CallRecord>& made) {
  constexpr std::size_t kMostAdded = 2, kMostLeftOut = 3;
  const std::size_t first = made.size() - std::min(made.size(), kMostAdded);
  std::vector<ExpectedCall> best;
  std::size_t fewest = 0;
  for (std::size_t end = std::min(first, expected.size());
       end <= std::min(expected.size(), made.size() + kMostLeftOut); ++end) {
    std::vector<ExpectedCall> part(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(end));
    const std::size_t count = differences(part, made).size();
    const bool is_better = best.empty() || count < fewest || (count == fewest && end <= made.size());
    if (!is_better) continue;
    fewest = count;
    best = std::move(part);
  }
  return best;
}

std::string explain_calls(const Case& the_case, const CaseSetting& setting, const sim::RunReport& report) {
  std::vector<RanksThatDiffer> all;
  for (const sim::RankReport& rank : report.ranks) {
    auto expected = expected_calls(the_case, setting, rank.rank);
    if (!report.ok()) expected = expected_so_far(expected, rank.calls);
    for (RanksThatDiffer& one : counted_differences(differences(expected, rank.calls), rank.rank)) {
      const auto known = std::find_if(all.begin(), all.end(), [&](const auto& other) {
        return other.what == one.what && other.times == one.times;
      });
      if (known == all.end()) {
        all.push_back(std::move(one));
      } else {
        known->ranks.push_back(rank.rank);
        known->is_everywhere_there = known->is_everywhere_there && known->where == one.where;
      }
    }
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kMostPhrases); ++i)
    text += (text.empty() ? "" : "; ") + text_of(all[i], report.ranks.size());
  if (all.size() > kMostPhrases) {
    const auto more = std::ssize(all) - static_cast<std::ptrdiff_t>(kMostPhrases);
    text += fmt::format("; and {}", counted(more, "more difference"));
  }
  return text;
}

// ---- values

/// A tensor that is wrong: the values that the ranks computed, and those that it should have.
struct Wrong {
  const Case& the_case;
  const CaseSetting& setting;
  const sim::RunReport& report;
  const reference::Number<Field>& number;
  CaseOutput output;
  Assembled<Field> got;
  Whole serial;
  Inputs<Field>::Seen inputs;
  std::vector<std::string> right;  // the tensors that were found right before this one
};

/// What is wrong with a tensor. It is specific if an experiment fits, and not if only the elements are told.
struct Explained {
  std::string text;
  bool is_specific = true;
  std::size_t elements = 0;  // of the tensor that is wrong
};

/// The most runs of the reference: a failure that is not shrunk may have many inputs and parts.
constexpr int kMostExperiments = 1000;

bool equal(const std::vector<Field>& got, const Whole& expected) {
  return static_cast<Eigen::Index>(got.size()) == expected.size() &&
         std::equal(got.begin(), got.end(), expected.data());
}

std::string explain_terms(const Wrong& wrong) {
  if (wrong.output.placement != Placement::replicated || !wrong.output.part_of.empty()) return "";
  std::vector<std::vector<Field>> values;  // without duplicates
  std::vector<std::vector<int>> holders;
  for (int rank = 0; rank < wrong.setting.group_size; ++rank) {
    std::vector<Field> own = values_of<Field>(*wrong.report.find(rank, wrong.output.name));
    const auto known = std::find(values.begin(), values.end(), own);
    if (known != values.end()) {
      holders[static_cast<std::size_t>(known - values.begin())].push_back(rank);
      continue;
    }
    values.push_back(std::move(own));
    holders.push_back({rank});
  }
  if (values.size() < 2) return "";
  std::vector<Field> sum = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) {
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] = sum[k] + values[i][k];
  }
  if (equal(sum, wrong.serial)) {
    if (static_cast<int>(values.size()) == wrong.setting.group_size)
      return "each rank holds its own term, and their sum is the serial one: the sum over the group is "
             "missing";
    std::vector<std::string> groups;
    for (const auto& ranks : holders) groups.push_back(fmt::format("{{{}}}", fmt::join(ranks, ", ")));
    return fmt::format("ranks {} hold the sums of parts of the group: summed over the wrong group",
                       fmt::join(groups, " "));
  }
  std::vector<int> right;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (equal(values[i], wrong.serial)) right = holders[i];
  }
  const auto all = static_cast<std::size_t>(wrong.setting.group_size);
  return right.empty() ? "it differs from rank to rank"
                       : fmt::format("it is right on {} only", text_of_ranks(right, all));
}

std::vector<std::pair<std::string, std::int64_t>> numbers_of(const CaseSetting& setting) {
  const std::string ranks = name_of(setting.ranks);
  std::vector<std::pair<std::string, std::int64_t>> numbers = {{ranks, setting.group_size}};
  for (const auto& [name, value] : setting.dimensions) {
    numbers.emplace_back(name, value);
    numbers.emplace_back(ranks + " * " + name, setting.group_size * value);
  }
  numbers.insert(numbers.end(), {{"2", 2}, {"-1", -1}});
  return numbers;
}

std::string explain_factor(const Wrong& wrong) {
  const auto fits = [&](const Field& factor) {
    for (std::size_t i = 0; i < wrong.got.values.size(); ++i) {
      if (!(wrong.got.values[i] == factor * wrong.serial.data()[i])) return false;
    }
    return true;
  };
  if (fits(Field::of(0))) return "every element is zero";
  for (const auto& [name, value] : numbers_of(wrong.setting)) {
    const Field number = Field::of(value);
    const std::string text = name == fmt::format("{}", value) ? name : fmt::format("{} ({})", name, value);
    if (fits(number)) return fmt::format("every element is {} times the serial one", text);
    if (value != 0 && fits(Field::of(1) / number))
      return fmt::format("every element is the serial one divided by {}", text);
  }
  return "";
}

/// Returns whether the reference with this change gives the result of the ranks.
bool fits(const Wrong& wrong, const InputChange& change) {
  const Inputs<Field> inputs(wrong.setting, wrong.number, &change);
  return equal(wrong.got.values, wrong.the_case.serial(inputs, wrong.setting).at(wrong.output.name));
}

/// Returns "row 3" or "columns 4 to 7".
std::string text_of_lines(const char* noun, Eigen::Index first, Eigen::Index last) {
  return first == last ? fmt::format("{} {}", noun, first) : fmt::format("{}s {} to {}", noun, first, last);
}

std::string text_of(const InputChange& change, const Whole& input, int tp) {
  const bool of_rows = change.axis == InputChange::Axis::rows;
  const Eigen::Index lines = (of_rows ? input.rows() : input.cols()) / change.parts;
  const std::string what = change.parts == 1
                               ? change.name
                               : fmt::format("{} of {}, rank {}'s part,",
                                             text_of_lines(of_rows ? "row" : "column", change.part * lines,
                                                           (change.part + 1) * lines - 1),
                                             change.name, change.part);
  if (change.factor == 0) return what + " had no part in it: that term is missing";
  if (change.factor == tp) return what + fmt::format(" counted tp ({}) times", tp);
  return what + (change.factor == 2 ? " counted twice" : " counted with the other sign");
}

std::string explain_inputs(const Wrong& wrong) {
  int left = kMostExperiments;
  const int tp = wrong.setting.group_size;
  const std::set<std::int64_t> factors = {0, tp, 2, -1};
  for (const auto& [name, input] : wrong.inputs) {
    for (const std::int64_t factor : factors) {
      if (factor == 1) continue;
      InputChange change{.name = name, .factor = factor};
      if (--left < 0) return "";
      if (fits(wrong, change)) return text_of(change, input, tp);
      for (const auto axis : {InputChange::Axis::rows, InputChange::Axis::columns}) {
        const Eigen::Index lines = axis == InputChange::Axis::rows ? input.rows() : input.cols();
        if (tp == 1 || lines % tp != 0) continue;
        for (int part = 0; part < tp; ++part) {
          change = {.name = name, .axis = axis, .part = part, .parts = tp, .factor = factor};
          if (--left < 0) return "";
          if (fits(wrong, change)) return text_of(change, input, tp);
        }
      }
    }
  }
  return "";
}

/// For each row of the ranks' tensor, returns the equal row of the serial tensor. Returns none if a row has
/// no equal, or if all of them equal the same row.
std::optional<std::vector<Eigen::Index>> places(const Whole& got, const Whole& serial) {
  std::vector<Eigen::Index> found;
  for (Eigen::Index i = 0; i < got.rows(); ++i) {
    Eigen::Index j = 0;
    while (j < serial.rows() && !(got.row(i) == serial.row(j))) ++j;
    if (j == serial.rows()) return std::nullopt;
    found.push_back(j);
  }
  const bool is_one_row = std::all_of(found.begin(), found.end(), [&](auto j) { return j == found.front(); });
  return is_one_row ? std::nullopt : std::optional(found);
}

std::string explain_places(const Wrong& wrong) {
  const Whole got = Eigen::Map<const Whole>(wrong.got.values.data(), wrong.got.rows, wrong.got.columns);
  if (const auto rows = places(got, wrong.serial))
    return fmt::format("its rows are, in this order, rows {} of the serial one", fmt::join(*rows, " "));
  if (const auto columns = places(got.transpose(), wrong.serial.transpose()))
    return fmt::format("its columns are, in this order, columns {} of the serial one",
                       fmt::join(*columns, " "));
  return "";
}

/// Returns "rows 2 to 5" or "columns 0 3 4".
std::string text_of_set(const char* noun, const std::set<std::int64_t>& lines) {
  if (*lines.rbegin() - *lines.begin() + 1 == std::ssize(lines))
    return text_of_lines(noun, *lines.begin(), *lines.rbegin());
  return fmt::format("{}s {}", noun, fmt::join(lines, " "));
}

std::string explain_extent(const Wrong& wrong) {
  std::set<std::int64_t> rows, columns;
  std::set<int> ranks;
  std::size_t count = 0;
  for (std::size_t i = 0; i < wrong.got.values.size(); ++i) {
    if (wrong.got.values[i] == wrong.serial.data()[i]) continue;
    ++count;
    rows.insert(static_cast<std::int64_t>(i) / wrong.got.columns);
    columns.insert(static_cast<std::int64_t>(i) % wrong.got.columns);
    ranks.insert(wrong.got.ranks[i]);
  }
  if (count == 0) return "it is right on some ranks only";
  const auto all = static_cast<std::size_t>(wrong.setting.group_size);
  std::string text = wrong.got.values.size() == 1
                         ? "its only element differs from the serial one"
                         : fmt::format("it differs in {} of {}: {}, {}", count,
                                       counted(std::ssize(wrong.got.values), "element"),
                                       text_of_set("row", rows), text_of_set("column", columns));
  if (*ranks.begin() >= 0 && ranks.size() < all) {
    text += fmt::format(", all of {}", text_of_ranks({ranks.begin(), ranks.end()}, all));
  }
  return text;
}

/// At most this many tensors are named as right: of a whole training there are hundreds.
constexpr std::size_t kMostRight = 8;

Explained explain_values(const Wrong& wrong) {
  for (const auto explain : {explain_terms, explain_factor, explain_inputs, explain_places}) {
    std::string text = explain(wrong);
    if (!text.empty()) return {std::move(text), true, wrong.got.values.size()};
  }
  std::string text = explain_extent(wrong);
  if (!wrong.right.empty() && wrong.right.size() <= kMostRight)
    text += fmt::format("; before it, {} {} right", fmt::join(wrong.right, ", "),
                        wrong.right.size() == 1 ? "is" : "are");
  return {std::move(text), false, wrong.got.values.size()};
}

/// Returns whether a replicated output is the same on all ranks of the first replica; true for other outputs.
bool ranks_agree(const CaseSetting& setting, const sim::RunReport& report, const CaseOutput& output) {
  if (output.placement != Placement::replicated || !output.part_of.empty()) return true;
  for (int rank = 1; rank < setting.group_size; ++rank) {
    if (!(*report.find(rank, output.name) == *report.find(0, output.name))) return false;
  }
  return true;
}

std::string explain_replicas(const CaseSetting& setting, const sim::RunReport& report,
                             const CaseOutput& output) {
  if (!output.part_of.empty()) return "";
  for (int rank = setting.group_size; rank < setting.group_size * setting.replicas; ++rank) {
    const int twin = rank % setting.group_size;
    if (*report.find(rank, output.name) == *report.find(twin, output.name)) continue;
    return fmt::format("rank {} of another replica differs from rank {}, which was given the same", rank,
                       twin);
  }
  return "";
}

/// Whether an output is an input of the layer, which ranks draw: the reference read a tensor of its name, or
/// of its name after a dot ("linear.weight"), and returns it as it is.
bool is_drawn(const CaseOutput& output, const Whole& serial, const Inputs<Field>::Seen& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) {
    const auto& [name, values] = input;
    const bool is_named = name == output.name || name.ends_with("." + output.name);
    return is_named && values.rows() == serial.rows() && values.cols() == serial.cols() && values == serial;
  });
}

/// Returns the outputs in the order in which they are explained: what ranks draw comes first.
std::vector<CaseOutput> drawn_first(std::vector<CaseOutput> outputs, const Wholes<Field>& wholes,
                                    const Inputs<Field>::Seen& inputs) {
  std::stable_partition(outputs.begin(), outputs.end(), [&](const CaseOutput& output) {
    const auto serial = wholes.find(output.name);
    return serial != wholes.end() && is_drawn(output, serial->second, inputs);
  });
  return outputs;
}

/// Explains the first output that is wrong on some rank. If nothing fits it, a later one may be a multiple of
/// the serial one, as a moment of Adam is of a gradient. Returns no text if none is wrong, or if a shape is
/// the reason.
Explained explain_first_wrong(Bench& bench, const Case& the_case, const CaseSetting& setting,
                              const sim::RunReport& report) {
  const reference::Number<Field> number(bench.tower(the_case, setting));
  Inputs<Field>::Seen seen;
  const Wholes<Field> wholes = the_case.serial(Inputs<Field>(setting, number, nullptr, &seen), setting);
  std::vector<std::string> right;
  Explained first;
  for (const CaseOutput& output : drawn_first(the_case.outputs(setting), wholes, seen)) {
    const std::string replicas = explain_replicas(setting, report, output);
    if (!replicas.empty()) return first.text.empty() ? Explained{output.name + ": " + replicas} : first;
    Assembled<Field> got = assembled<Field>(report, output, setting.group_size);
    const auto known = wholes.find(output.name);
    if (known == wholes.end()) return {output.name + ": the serial reference does not return it"};
    const Whole& serial = known->second;
    if (static_cast<Eigen::Index>(got.values.size()) != serial.size()) return first;
    if (equal(got.values, serial) && ranks_agree(setting, report, output)) {
      right.push_back(output.name);
      continue;
    }
    if (!first.text.empty()) {
      const std::string factor =
          explain_factor({the_case, setting, report, number, output, std::move(got), serial, seen, right});
      if (factor.empty()) continue;
      return {fmt::format("{}; {}: {}", first.text, output.name, factor), true, first.elements};
    }
    const std::string drawn =
        is_drawn(output, serial, seen) ? "ranks drew something else than the reference; " : "";
    Explained explained =
        explain_values({the_case, setting, report, number, output, std::move(got), serial, seen, right});
    explained.text = fmt::format("{}: {}{}", output.name, drawn, explained.text);
    if (explained.is_specific) return explained;
    first = std::move(explained);
  }
  return first;
}

/// The setting with its sizes raised to `size`, where they are smaller and their ranges allow it. What may be
/// 0 or has two values at most is a choice, which stays.
CaseSetting raised(const Case& the_case, const CaseSetting& setting, std::int64_t size) {
  CaseSetting larger = setting;
  for (const Dimension& dimension : the_case.dimensions()) {
    std::int64_t& value = larger.dimensions[dimension.name];
    const bool is_size = dimension.least > 0 && dimension.most > dimension.least + 1;
    if (is_size) value = std::max(value, std::min(size, dimension.most));
  }
  return larger;
}

/// Returns the sizes in which two settings differ: "tokens 3, hidden 3".
std::string text_of_sizes(const CaseSetting& larger, const CaseSetting& smaller) {
  std::vector<std::string> sizes;
  for (const auto& [name, value] : larger.dimensions) {
    if (smaller.dimensions.at(name) != value) sizes.push_back(fmt::format("{} {}", name, value));
  }
  return fmt::format("{}", fmt::join(sizes, ", "));
}

/// Returns settings at which a mistake of which little can be said may say more: a layer at larger sizes, if
/// its first wrong tensor has one element, and an optimizer with each of its flags set, since a decay that is
/// coupled with the gradient hides a factor of the gradient.
std::vector<CaseSetting> telling_settings(const Case& the_case, const CaseSetting& setting,
                                          const Explained& least) {
  std::vector<CaseSetting> settings;
  if (setting.ranks == Ranks::tensor_parallel && least.elements == 1)
    settings = {raised(the_case, setting, 2), raised(the_case, setting, 3)};
  if (setting.ranks == Ranks::data_parallel) {
    for (const Dimension& dimension : the_case.dimensions()) {
      if (dimension.least != 0 || dimension.most != 1) continue;
      settings.push_back(setting);
      settings.back().dimensions[dimension.name] = 1;
    }
  }
  std::erase(settings, setting);
  return settings;
}

/// Explains what is wrong at this setting in the field, or where nothing fits there, at another one.
std::string explain_tensors(Bench& bench, const Case& the_case, const CaseSetting& setting,
                            const sim::RunReport& report) {
  const Explained least = explain_first_wrong(bench, the_case, setting, report);
  if (least.text.empty() || least.is_specific) return least.text;
  for (const CaseSetting& other : telling_settings(the_case, setting, least)) {
    const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, other);
    if (!run->ok() || !check_outputs(*run, the_case.outputs(other), other.dtype).empty()) continue;
    const Explained explained = explain_first_wrong(bench, the_case, other, *run);
    const bool is_layer = setting.ranks == Ranks::tensor_parallel;
    const bool says_more = explained.is_specific || (is_layer && explained.elements > 1);
    if (!explained.text.empty() && says_more)
      return fmt::format("{} (at {})", explained.text, text_of_sizes(other, setting));
  }
  return least.text;
}

// ---- floats, where the field holds

using Bounds = reference::Matrix<reference::Bounded>;

/// What an element may be off by: a share of its bound, and a share of itself.
struct Allowance {
  double of_bound = 1;
  double of_value = 0;
};

/// Whether every element lies within what is allowed about `factor` times the serial one.
bool lies_within(const std::vector<double>& got, const Bounds& serial, double factor,
                 const Allowance& allowed = {}) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const reference::Bounded& expected = serial.data()[i];
    const double value = factor * expected.value();
    if (got[i] == value || (std::isnan(got[i]) && std::isnan(value))) continue;
    const double most =
        allowed.of_bound * std::fabs(factor) * expected.error() + allowed.of_value * std::fabs(value);
    if (!(std::fabs(got[i] - value) <= most)) return false;
  }
  return true;
}

/// Whether an element lies so far from 0 that a factor would show.
bool shows_a_factor(const Bounds& serial) {
  return std::any_of(serial.data(), serial.data() + serial.size(), [](const reference::Bounded& x) {
    return std::isfinite(x.value()) && std::fabs(x.value()) > 2 * x.error();
  });
}

/// Returns the factor between a tensor in floats and the serial one: a number of the setting, or a power of
/// two, with which losses are scaled. Returns "" if there is none.
std::string float_factor(const CaseSetting& setting, const std::vector<double>& got, const Bounds& serial) {
  if (!shows_a_factor(serial)) return "";
  if (std::all_of(got.begin(), got.end(), [](double x) { return x == 0; })) return "every element is zero";
  std::vector<std::pair<std::string, std::int64_t>> numbers = numbers_of(setting);
  for (std::int64_t power = 4; power <= std::int64_t{1} << 24; power *= 2)
    numbers.emplace_back(fmt::format("{}", power), power);
  for (const auto& [name, value] : numbers) {
    if (value == 0 || value == 1) continue;
    const std::string text = name == fmt::format("{}", value) ? name : fmt::format("{} ({})", name, value);
    const auto number = static_cast<double>(value);
    if (lies_within(got, serial, number))
      return fmt::format("every element is {} times the serial one", text);
    if (lies_within(got, serial, 1 / number))
      return fmt::format("every element is the serial one divided by {}", text);
  }
  return "";
}

/// Returns what a layer may be off by that rounds each of its operations, and the tensor itself, to bf16, the
/// coarsest dtype. To first order a bound is proportional to the unit roundoff (Higham 2002, section 3.1).
Allowance coarsest_rounding(sim::DType dtype) {
  const double store = reference::rounding_of_bf16(1).store;
  return {.of_bound = store / rounding_of(dtype, 1).unit, .of_value = store};
}

/// Explains a tensor that is wrong in floats and right in the field. An error that rounding explains in no
/// dtype is not one of rounding.
std::string explain_floats(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  if (!run->ok() || !check_outputs(*run, the_case.outputs(setting), setting.dtype).empty()) return "";
  const Wholes<reference::Bounded> wholes = bounded_reference(the_case, setting);
  for (const CaseOutput& output : the_case.outputs(setting)) {
    const std::vector<double> got = assembled<double>(*run, output, setting.group_size).values;
    const auto serial = wholes.find(output.name);
    if (serial == wholes.end() || static_cast<Eigen::Index>(got.size()) != serial->second.size()) return "";
    if (lies_within(got, serial->second, 1)) continue;
    const std::string begins = fmt::format(
        "in the field all is equal, and in {} {} is not: ", sim::name_of(setting.dtype), output.name);
    const std::string factor = float_factor(setting, got, serial->second);
    if (!factor.empty()) return begins + factor + ".";
    if (lies_within(got, serial->second, 1, coarsest_rounding(setting.dtype))) break;
    return begins +
           "it is off by more than rounding every operation to bf16 would explain. Something is "
           "computed there that the field does not compute.";
  }
  return "in the field all is equal: the algebra is right, and the rounding, precision or order is not.";
}

std::string explained_in_field(Bench& bench, const Case& the_case, const Property& property,
                               const CaseSetting& setting) {
  CaseSetting in_field = setting;
  in_field.dtype = sim::DType::field;
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, in_field);
  const sim::RunReport& report = *run;
  std::string text = explain_calls(the_case, in_field, report);
  if (!text.empty()) text += ".";
  if (!report.ok()) return text;
  const std::vector<CaseOutput> outputs = the_case.outputs(in_field);
  if (!check_outputs(report, outputs, in_field.dtype).empty()) return text;
  const std::string values = explain_tensors(bench, the_case, in_field, report);
  if (!values.empty()) text += (text.empty() ? "" : " ") + values + ".";
  if (!text.empty()) return text;
  if (!check_published(report, outputs, in_field.dtype).empty())
    return "every tensor that outputs() names is right.";
  const bool compares = std::strcmp(property.name, "serial") == 0 && setting.dtype != sim::DType::field;
  return compares ? explain_floats(bench, the_case, setting) : "";
}

}  // namespace

std::string explanation(Bench& bench, const Case& the_case, const Property& property,
                        const CaseSetting& setting) {
  try {
    return explained_in_field(bench, the_case, property, setting);
  } catch (const std::exception& error) {
    return fmt::format("the case threw when it was run to explain this: {}.", error.what());
  }
}

}  // namespace verify
