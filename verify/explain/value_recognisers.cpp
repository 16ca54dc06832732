#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "verify/explain/field_ratio.h"
#include "verify/explain/recognisers.h"
#include "verify/output/phrases.h"
#include "verify/properties/assembled.h"

namespace verify {

namespace {

using sim::Field;

const Field kZero = Field::of(0);

Field serial_at(const WrongTensor& tensor, std::size_t i) { return tensor.serial.data()[i]; }
Field difference_at(const WrongTensor& tensor, std::size_t i) { return tensor.got[i] - serial_at(tensor, i); }

/// Returns "row 3", "rows 2 to 5" or "rows 0 3 4".
std::string text_of_lines(const char* noun, const std::set<std::int64_t>& lines) {
  if (lines.size() == 1) return fmt::format("{} {}", noun, *lines.begin());
  if (*lines.rbegin() - *lines.begin() + 1 == std::ssize(lines))
    return fmt::format("{}s {} to {}", noun, *lines.begin(), *lines.rbegin());
  return fmt::format("{}s {}", noun, fmt::join(lines, " "));
}

/// The rows and columns in which elements are wrong.
struct WrongLines {
  std::set<std::int64_t> rows, columns;
  explicit WrongLines(const WrongTensor& tensor) {
    for (std::size_t i = 0; i < tensor.got.size(); ++i) {
      if (!tensor.is_wrong[i]) continue;
      rows.insert(static_cast<std::int64_t>(i) / tensor.columns);
      columns.insert(static_cast<std::int64_t>(i) % tensor.columns);
    }
  }
  std::string text() const { return text_of_lines("row", rows) + ", " + text_of_lines("column", columns); }
};

std::vector<std::size_t> wrong_elements(const WrongTensor& tensor) {
  std::vector<std::size_t> elements;
  for (std::size_t i = 0; i < tensor.got.size(); ++i) {
    if (tensor.is_wrong[i]) elements.push_back(i);
  }
  return elements;
}

// ---- terms of a sum

/// The values of a tensor that every rank has as a whole, without duplicates, and who has them.
struct Copies {
  std::vector<std::vector<Field>> values;
  std::vector<std::vector<int>> holders;
  explicit Copies(const WrongTensor& tensor) {
    const CaseOutput& output = tensor.output;
    if (output.placement != Placement::replicated || output.parts(tensor.run->setting.group_size) != 1)
      return;
    for (const int rank : tensor.ranks) {
      std::vector<Field> own = values_of<Field>(*tensor.run->report.find(rank, output.name));
      const auto known = std::ranges::find(values, own);
      if (known != values.end()) {
        holders[static_cast<std::size_t>(known - values.begin())].push_back(rank);
        continue;
      }
      values.push_back(std::move(own));
      holders.push_back({rank});
    }
  }
  bool add_up_to(const FieldWhole& serial) const {
    std::vector<Field> sum = values.front();
    for (std::size_t i = 1; i < values.size(); ++i) {
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] = sum[k] + values[i][k];
    }
    return std::equal(sum.begin(), sum.end(), serial.data());
  }
};

std::string terms_of_a_sum(const WrongTensor& tensor, ExperimentBudget&) {
  if (tensor.output.is_sum()) return "";
  const Copies copies(tensor);
  if (copies.values.size() < 2 || !copies.add_up_to(tensor.serial)) return "";
  // Rank 0 may have no term, and dropout may have dropped it.
  const bool has_zero = std::ranges::any_of(copies.values, [](const auto& values) {
    return std::ranges::all_of(values, [](const Field& x) { return x == kZero; });
  });
  if (has_zero && tensor.is_of_some_ranks()) return "";
  if (copies.values.size() == tensor.ranks.size())
    return "each rank holds its own term, and their sum is the serial one: the sum over the group is missing";
  std::vector<std::string> groups;
  for (const auto& ranks : copies.holders) groups.push_back(fmt::format("{{{}}}", fmt::join(ranks, ", ")));
  return fmt::format("ranks {} hold the sums of parts of the group: summed over the wrong group",
                     fmt::join(groups, " "));
}

// ---- factors

/// Elements without a value, where the serial ones have one.
std::string no_number(const WrongTensor& tensor, ExperimentBudget&) {
  const auto wrong = wrong_elements(tensor);
  const bool are_none = std::ranges::all_of(
      wrong, [&](std::size_t i) { return !has_value(tensor.got[i]) && has_value(serial_at(tensor, i)); });
  if (!are_none) return "";
  return fmt::format("{} of {} {} no number ({}): NaN, or memory that nothing has written", wrong.size(),
                     counted(std::ssize(tensor.got), "element"), wrong.size() == 1 ? "is" : "are",
                     WrongLines(tensor).text());
}

std::string zero(const WrongTensor& tensor, ExperimentBudget&) {
  const auto elements = tensor.judged();
  const bool is_zero = std::ranges::all_of(elements, [&](std::size_t i) { return tensor.got[i] == kZero; });
  return is_zero ? "every element is zero" : "";
}

/// Every wrong element is zero on one side alone, and both sides have such elements.
std::string another_mask(const WrongTensor& tensor, ExperimentBudget&) {
  if (is_a_choice(tensor)) return "";
  std::size_t zero_by_mistake = 0, zero_is_missing = 0;
  for (const std::size_t i : wrong_elements(tensor)) {
    const bool is_zero = tensor.got[i] == kZero, should_be_zero = serial_at(tensor, i) == kZero;
    if (is_zero == should_be_zero) return "";
    ++(is_zero ? zero_by_mistake : zero_is_missing);
  }
  if (zero_by_mistake == 0 || zero_is_missing == 0) return "";
  return fmt::format(
      "other elements of it are zero than of the serial one ({} that should not be, {} that should), and the "
      "rest is "
      "equal: another mask",
      zero_by_mistake, zero_is_missing);
}

/// Returns the quotient that all these elements have with the serial ones; none if it is not the same.
std::optional<SmallRatio> common_ratio(const WrongTensor& tensor, const std::vector<std::size_t>& elements) {
  std::optional<SmallRatio> ratio;
  for (const std::size_t i : elements) {
    const Field serial = serial_at(tensor, i);
    if (serial == kZero && tensor.got[i] == kZero) continue;
    if (!ratio) ratio = small_ratio(tensor.run->number, tensor.got[i], serial);
    if (!ratio || !(ratio->value(tensor.run->number) * serial == tensor.got[i])) return std::nullopt;
  }
  return ratio;
}

/// One element may be any quotient of small numbers by chance, and one that has no name says little.
bool says_something(const SmallRatio& ratio, std::size_t elements) {
  return elements > 1 || std::max(std::abs(ratio.numerator), ratio.denominator) <= 64;
}

/// Returns a ratio with those of its names that are not ruled out.
std::string text_of_ratio(const SmallRatio& ratio, const ComparedRun& run) {
  std::set<std::string> names = names_of(ratio, run.the_case, run.setting);
  std::erase_if(names, [&](const std::string& name) { return run.ruled_out.contains(name); });
  return text_of(ratio, names);
}

std::string factor(const WrongTensor& tensor, ExperimentBudget&) {
  const auto elements = tensor.judged();
  const auto ratio = common_ratio(tensor, elements);
  if (!ratio || !says_something(*ratio, elements.size())) return "";
  return "every element is " + text_of_ratio(*ratio, *tensor.run);
}

std::string factor_of_each_rank(const WrongTensor& tensor, ExperimentBudget&) {
  std::map<int, std::vector<std::size_t>> elements;
  for (const std::size_t i : tensor.judged()) elements[tensor.owner[i]].push_back(i);
  if (elements.size() < 2 || elements.contains(-1)) return "";
  std::vector<std::string> of_ranks;
  for (const auto& [rank, own] : elements) {
    const auto ratio = common_ratio(tensor, own);
    if (!ratio || !says_something(*ratio, own.size())) return "";
    of_ranks.push_back(
        fmt::format("on rank {} every element is {}", rank, text_of_ratio(*ratio, *tensor.run)));
  }
  return fmt::format("{}", fmt::join(of_ranks, ", "));
}

// ---- another tensor

/// Returns element i of a tensor, or of one row that stands for all rows.
Field element_of(const FieldWhole& other, std::size_t i) {
  return other.data()[i % static_cast<std::size_t>(other.size())];
}

/// Calls `use` for every tensor of the same shape that a wrong one may be: itself at other times, what the
/// layer is given, and what it computes. A row, such as a bias, stands for all rows.
template <typename Use>
std::string first_of_others(const WrongTensor& tensor, const Use& use) {
  const ComparedRun& run = *tensor.run;
  const auto fits = [&](const FieldWhole& other) {
    if (other.rows() == 1 && other.cols() == tensor.columns && tensor.rows > 1) return true;
    return other.size() == tensor.serial.size() && other.size() > 0 &&
           !std::equal(other.data(), other.data() + other.size(), tensor.serial.data());
  };
  for (const auto& [description, wholes] : run.others) {
    const auto other = wholes.find(tensor.output.name);
    if (other == wholes.end() || !fits(other->second)) continue;
    if (std::string text = use(description, other->second); !text.empty()) return text;
  }
  for (const auto* others :
       {&run.inputs.matrices, static_cast<const std::map<std::string, FieldWhole>*>(&run.serial)}) {
    for (const auto& [name, other] : *others) {
      if (!fits(other)) continue;
      const bool is_own = name == tensor.output.name;
      if (std::string text = use(is_own ? "its initial value" : name, other); !text.empty()) return text;
    }
  }
  return "";
}

std::string another_tensor(const WrongTensor& tensor, ExperimentBudget&) {
  const auto elements = tensor.judged();
  return first_of_others(tensor, [&](const std::string& name, const FieldWhole& other) -> std::string {
    const bool is_it =
        std::ranges::all_of(elements, [&](std::size_t i) { return tensor.got[i] == element_of(other, i); });
    return is_it ? "it is " + name : "";
  });
}

std::string difference_of_a_tensor(const WrongTensor& tensor, ExperimentBudget&) {
  const auto elements = tensor.judged();
  if (elements.size() < 2) return "";
  return first_of_others(tensor, [&](const std::string& name, const FieldWhole& other) -> std::string {
    std::optional<SmallRatio> ratio;
    for (const std::size_t i : elements) {
      const Field difference = difference_at(tensor, i), of = element_of(other, i);
      if (difference == kZero && of == kZero) continue;
      if (!ratio) ratio = small_fraction(difference, of);
      if (!ratio || !(ratio->value(tensor.run->number) * of == difference)) return "";
    }
    if (!ratio) return "";
    const char* sign = ratio->numerator < 0 ? "minus" : "plus";
    const std::int64_t above = std::abs(ratio->numerator);
    if (ratio->denominator == 1 && above == 1) return fmt::format("it is the serial one {} {}", sign, name);
    const std::string times = ratio->denominator == 1 ? fmt::format("{} times", above)
                                                      : fmt::format("{}/{} of", above, ratio->denominator);
    return fmt::format("it is the serial one {} {} {}", sign, times, name);
  });
}

// ---- places

std::string part_of_another_rank(const WrongTensor& tensor, ExperimentBudget&) {
  std::map<int, std::vector<std::size_t>> elements;
  for (std::size_t i = 0; i < tensor.got.size(); ++i) elements[tensor.owner[i]].push_back(i);
  if (elements.size() < 2 || elements.contains(-1) || tensor.output.is_sum()) return "";
  std::vector<std::string> of_ranks;
  for (const int rank : tensor.wrong_ranks) {
    const auto& own = elements.at(rank);
    const auto other = std::ranges::find_if(elements, [&](const auto& one) {
      const auto& [of, theirs] = one;
      if (of == rank || theirs.size() != own.size()) return false;
      for (std::size_t i = 0; i < own.size(); ++i) {
        if (!(tensor.got[own[i]] == serial_at(tensor, theirs[i]))) return false;
      }
      return true;
    });
    if (other == elements.end()) return "";
    of_ranks.push_back(fmt::format("rank {} has the part of rank {}", rank, other->first));
  }
  return fmt::format("{}", fmt::join(of_ranks, ", "));
}

/// For each row of the ranks' tensor, returns the equal row of the serial tensor. Returns none if a row has
/// no equal, or if all of them equal the same row.
std::optional<std::vector<Eigen::Index>> places(const FieldWhole& got, const FieldWhole& serial) {
  std::vector<Eigen::Index> found;
  for (Eigen::Index i = 0; i < got.rows(); ++i) {
    Eigen::Index j = 0;
    while (j < serial.rows() && !(got.row(i) == serial.row(j))) ++j;
    if (j == serial.rows()) return std::nullopt;
    found.push_back(j);
  }
  const bool is_one_row = std::ranges::all_of(found, [&](auto j) { return j == found.front(); });
  return is_one_row ? std::nullopt : std::optional(found);
}

/// Whether lines appear more than once, and each wrong element is the serial one times one number: where some
/// lines of a tensor are multiples of others, as those of a weight whose halves are scaled, a lost factor
/// makes them equal.
bool are_a_lost_factor(const WrongTensor& tensor, std::vector<Eigen::Index> places) {
  std::ranges::sort(places);
  const bool has_twins = std::ranges::adjacent_find(places) != places.end();
  return has_twins && common_ratio(tensor, wrong_elements(tensor)).has_value();
}

std::string other_places(const WrongTensor& tensor, ExperimentBudget&) {
  const FieldWhole got = Eigen::Map<const FieldWhole>(tensor.got.data(), tensor.rows, tensor.columns);
  const auto rows = places(got, tensor.serial);
  if (rows && !are_a_lost_factor(tensor, *rows))
    return fmt::format("its rows are, in this order, rows {} of the serial one", fmt::join(*rows, " "));
  const auto columns = places(got.transpose(), tensor.serial.transpose());
  if (columns && !are_a_lost_factor(tensor, *columns))
    return fmt::format("its columns are, in this order, columns {} of the serial one",
                       fmt::join(*columns, " "));
  if (got.size() > 2 && got.rows() == got.cols() && got == tensor.serial.transpose())
    return "it is the serial one transposed";
  std::vector<std::size_t> from;
  for (const Field& value : tensor.got) {
    const Field* begin = tensor.serial.data();
    const Field* found = std::find(begin, begin + tensor.serial.size(), value);
    if (found == begin + tensor.serial.size()) return "";
    from.push_back(static_cast<std::size_t>(found - begin));
  }
  if (std::set<std::size_t>(from.begin(), from.end()).size() < from.size() || from.size() < 3) return "";
  return fmt::format("its elements are those of the serial one in other places: row by row, elements {}",
                     fmt::join(from, " "));
}

/// Returns the row of a matrix that equals row i of the other; -1 if there is none.
Eigen::Index row_like(const FieldWhole& matrix, const FieldWhole& of, Eigen::Index i) {
  for (Eigen::Index j = 0; j < matrix.rows(); ++j) {
    if (matrix.row(j) == of.row(i)) return j;
  }
  return -1;
}

/// A row is another row of an input, as those of an embedding are, or zero.
std::string other_rows_of_an_input(const WrongTensor& tensor, ExperimentBudget&) {
  const FieldWhole got = Eigen::Map<const FieldWhole>(tensor.got.data(), tensor.rows, tensor.columns);
  const WrongLines lines(tensor);
  for (const auto& [name, input] : tensor.run->inputs.matrices) {
    if (input.cols() != got.cols() || input.rows() < 2) continue;
    std::vector<std::string> rows;
    for (const std::int64_t row : lines.rows) {
      const Eigen::Index should = row_like(input, tensor.serial, row), is = row_like(input, got, row);
      const bool is_zero = (got.row(row).array() == kZero).all();
      if (should < 0 || (is < 0 && !is_zero)) break;
      rows.push_back(fmt::format("row {} is {}, and should be row {} of {}", row,
                                 is_zero ? "zero" : fmt::format("row {}", is), should, name));
    }
    constexpr std::size_t kMostRows = 3;
    if (rows.size() != lines.rows.size()) continue;
    const std::size_t more = rows.size() - std::min(rows.size(), kMostRows);
    rows.resize(rows.size() - more);
    return fmt::format("{}{}", fmt::join(rows, "; "), more == 0 ? "" : fmt::format("; {} more rows", more));
  }
  return "";
}

// ---- squares

/// The sums of the squares of all gradients.
struct Squares {
  std::map<std::string, Field> by_tensor;
  std::map<int, Field> by_rank;
  Field all = kZero;
};

Squares squares_of_gradients(const ComparedRun& run) {
  Squares sums;
  std::vector<const FieldWhole*> counted;
  for (const CaseOutput& output : run.the_case.outputs(run.setting)) {
    if (!output.name.ends_with(".grad")) continue;
    const FieldWhole& grad = run.serial.at(output.name);
    // A weight that two layers share is published by both.
    const bool is_copy = std::ranges::any_of(counted, [&](const FieldWhole* other) {
      return other->rows() == grad.rows() && other->cols() == grad.cols() && *other == grad;
    });
    if (is_copy) continue;
    counted.push_back(&grad);
    Field squares = kZero;
    for (Eigen::Index i = 0; i < grad.size(); ++i) squares = squares + grad.data()[i] * grad.data()[i];
    sums.by_tensor[output.name] = squares;
    sums.all = sums.all + squares;
    const WrongTensor owned = compared_tensor(run, output);
    for (std::size_t i = 0; i < owned.owner.size(); ++i) {
      if (owned.owner[i] < 0) continue;
      Field& of_rank = sums.by_rank.try_emplace(owned.owner[i], kZero).first->second;
      of_rank = of_rank + serial_at(owned, i) * serial_at(owned, i);
    }
  }
  return sums;
}

/// A number that should be the sum of the squares of all gradients, without some of them, or with some twice.
std::string sum_of_squares(const WrongTensor& tensor, ExperimentBudget&) {
  if (tensor.got.size() != 1) return "";
  const auto [by_tensor, by_rank, sum] = squares_of_gradients(*tensor.run);
  if (by_tensor.empty() || sum == kZero) return "";
  const Field all = sum, scale = serial_at(tensor, 0) / all;  // published ones may be clipped by one factor
  const auto is = [&](const Field& squares) { return tensor.got[0] == scale * squares; };
  for (const auto& [rank, squares] : by_rank) {
    if (is(squares))
      return fmt::format("it is the sum of the squares of only rank {}'s part of the gradients", rank);
    if (is(all - squares))
      return fmt::format("the squares of rank {}'s part of the gradients are missing", rank);
  }
  for (const auto& [name, squares] : by_tensor) {
    if (is(all - squares)) return fmt::format("the squares of {} are missing in it", name);
    if (is(all + squares)) return fmt::format("the squares of {} are counted twice in it", name);
  }
  return "";
}

// ---- what names no cause

std::string another_choice(const WrongTensor& tensor, ExperimentBudget&) {
  if (!is_a_choice(tensor)) return "";
  std::size_t chosen = 0;
  for (const std::size_t i : wrong_elements(tensor))
    chosen += static_cast<std::size_t>(!(tensor.got[i] == kZero));
  return fmt::format("another choice: {} chosen that should not be, {} not chosen that should be ({})",
                     chosen, tensor.count_wrong() - chosen, WrongLines(tensor).text());
}

std::string not_zero_where_zero(const WrongTensor& tensor, ExperimentBudget&) {
  const auto wrong = wrong_elements(tensor);
  const bool should_be =
      std::ranges::all_of(wrong, [&](std::size_t i) { return serial_at(tensor, i) == kZero; });
  if (should_be)
    return fmt::format(
        "every wrong element should be zero and is not ({}): what is masked, padded or ignored counts",
        WrongLines(tensor).text());
  const bool are_zero = std::ranges::all_of(wrong, [&](std::size_t i) { return tensor.got[i] == kZero; });
  return are_zero ? fmt::format("every wrong element is zero ({})", WrongLines(tensor).text()) : "";
}

std::string factor_of_some_elements(const WrongTensor& tensor, ExperimentBudget&) {
  const auto wrong = wrong_elements(tensor);
  const auto ratio = common_ratio(tensor, wrong);
  if (!ratio || wrong.size() < 2) return "";
  return fmt::format("in {}, the only wrong part, it is {}", WrongLines(tensor).text(),
                     text_of_ratio(*ratio, *tensor.run));
}

std::string one_unknown_factor(const WrongTensor& tensor, ExperimentBudget&) {
  std::optional<Field> quotient;
  int count = 0;
  for (const std::size_t i : tensor.judged()) {
    const Field serial = serial_at(tensor, i);
    if (serial == kZero && tensor.got[i] == kZero) continue;
    if (serial == kZero) return "";
    if (!quotient) quotient = tensor.got[i] / serial;
    if (!(*quotient * serial == tensor.got[i])) return "";
    ++count;
  }
  constexpr int kFew = 3;  // fewer elements are multiples of others by chance of their shape
  return count < kFew
             ? ""
             : "every element is the same multiple of the serial one, by a number that the run computes";
}

/// Whether all rows are multiples of one row: then every other row of that kind is a multiple of them, too.
bool has_one_direction(const FieldWhole& matrix) {
  for (Eigen::Index i = 1; i < matrix.rows(); ++i) {
    for (Eigen::Index j = 1; j < matrix.cols(); ++j) {
      if (!(matrix(0, 0) * matrix(i, j) == matrix(0, j) * matrix(i, 0))) return false;
    }
  }
  return true;
}

/// Returns whether every row is a multiple of the serial row, and not all the same one.
bool has_a_factor_by_row(const FieldWhole& got, const FieldWhole& serial) {
  if (got.rows() < 2 || got.cols() < 2 || has_one_direction(serial)) return false;
  std::vector<Field> factors;
  for (Eigen::Index i = 0; i < got.rows(); ++i) {
    std::optional<Field> quotient;
    for (Eigen::Index j = 0; j < got.cols(); ++j) {
      if (serial(i, j) == kZero && got(i, j) == kZero) continue;
      if (serial(i, j) == kZero) return false;
      if (!quotient) quotient = got(i, j) / serial(i, j);
      if (!(*quotient * serial(i, j) == got(i, j))) return false;
    }
    if (quotient) factors.push_back(*quotient);
  }
  return factors.size() > 1;
}

std::string factor_by_line(const WrongTensor& tensor, ExperimentBudget&) {
  const FieldWhole got = Eigen::Map<const FieldWhole>(tensor.got.data(), tensor.rows, tensor.columns);
  if (has_a_factor_by_row(got, tensor.serial))
    return "each row is a multiple of the serial row, by a number of its own: what the rows are multiplied "
           "by is "
           "wrong, and what is in them is right";
  if (has_a_factor_by_row(got.transpose(), tensor.serial.transpose()))
    return "each column is a multiple of the serial column, by a number of its own: what the columns are "
           "multiplied "
           "by is wrong, and what is in them is right";
  return "";
}

constexpr Recogniser kValues[] = {
    {"no number", no_number},
    {"terms of a sum", terms_of_a_sum},
    {"zero", zero},
    {"another mask", another_mask},
    {"factor", factor},
    {"factor of each rank", factor_of_each_rank},
    {"part of another rank", part_of_another_rank},
    {"other places", other_places},
    {"another tensor", another_tensor},
    {"other rows of an input", other_rows_of_an_input},
    {"difference of a tensor", difference_of_a_tensor},
    {"sum of squares", sum_of_squares},
};
constexpr Recogniser kPartial[] = {
    {"another choice", another_choice},
    {"not zero where zero", not_zero_where_zero},
    {"factor of some elements", factor_of_some_elements},
    {"one unknown factor", one_unknown_factor},
    {"factor by line", factor_by_line},
};

}  // namespace

std::span<const Recogniser> value_recognisers() { return kValues; }
std::span<const Recogniser> partial_recognisers() { return kPartial; }

bool is_a_choice(const WrongTensor& tensor) {
  const Field one = Field::of(1);
  const auto is_flag = [&](const Field& x) { return x == kZero || x == one; };
  const Field* serial = tensor.serial.data();
  return tensor.got.size() > 1 && std::ranges::all_of(tensor.got, is_flag) &&
         std::all_of(serial, serial + tensor.serial.size(), is_flag);
}

std::set<std::string> names_of_factor(const WrongTensor& tensor) {
  const auto ratio = common_ratio(tensor, tensor.judged());
  return ratio ? names_of(*ratio, tensor.run->the_case, tensor.run->setting) : std::set<std::string>();
}

std::string text_of_extent(const WrongTensor& tensor) {
  if (tensor.got.size() == 1) return "its only element differs from the serial one";
  return fmt::format("it differs in {} of {}: {}", tensor.count_wrong(),
                     counted(std::ssize(tensor.got), "element"), WrongLines(tensor).text());
}

}  // namespace verify
