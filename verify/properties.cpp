#include "verify/properties.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "sim/tensor/cpu_device.h"
#include "sim/world/simulate.h"
#include "verify/scalars.h"

namespace verify {

namespace {

using reference::Bounded;

sim::WorldSpec world_of(const CaseSetting& setting, int tp) {
  sim::WorldSpec spec{.layout = sim::make_layout({.world_size = tp, .tensor_model_parallel_size = tp},
                                                 sim::RuleBook::megatron)};
  spec.seed = setting.seed;
  return spec;
}

sim::RunReport run_on(const Case& the_case, const CaseSetting& setting, const sim::WorldSpec& spec) {
  sim::CpuDevice device(setting.seed);
  return sim::simulate(spec, device, [&](sim::Rank& rank) { the_case.run(rank, setting); });
}

Judgement fails(std::string detail) { return {false, std::move(detail), 0}; }

// ---- scalars of candidates ---------------------------------------------------------------------------------------

/// Of a published tensor, as doubles or elements of the field.
template <typename Value>
std::vector<Value> values_of(const sim::Published& tensor);

template <>
std::vector<sim::Field> values_of(const sim::Published& tensor) {
  return fields_of(tensor.values);
}

template <>
std::vector<double> values_of(const sim::Published& tensor) {
  return doubles_of(tensor.dtype, tensor.values);
}

// ---- wholes ------------------------------------------------------------------------------------------------------

/// Rows and columns of a published tensor; a vector is one row.
struct Extent {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
};
Extent extent_of(const sim::Shape& shape) {
  Extent extent;
  const std::size_t dimensions = shape.dimensions();
  if (dimensions > 0) extent.columns = shape[dimensions - 1];
  for (std::size_t i = 0; i + 1 < dimensions; ++i) extent.rows *= shape[i];
  return extent;
}

/// Where line i of a part lies in the whole.
std::int64_t line_in_whole(std::int64_t line, std::int64_t lines, int stride, int rank, int ranks) {
  const std::int64_t block = std::max<std::int64_t>(lines / stride, 1);
  return (line / block * ranks + rank) * block + line % block;
}

/// The rank and the element that hold (row, column) of the whole, and the value; partial sums are of all ranks.
template <typename Value>
struct Assembled {
  Extent extent;
  std::vector<Value> values;
  std::vector<int> ranks;  // that hold each; -1: all
};

template <typename Value>
Assembled<Value> assembled(const sim::RunReport& report, const CaseOutput& output) {
  const int ranks = static_cast<int>(report.ranks.size());
  const sim::Published& first = *report.find(report.ranks.front().rank, output.name);
  const Extent part = extent_of(first.shape);
  Assembled<Value> whole{part, {}, {}};
  if (output.placement == Placement::rows) whole.extent.rows *= ranks;
  if (output.placement == Placement::columns) whole.extent.columns *= ranks;
  const auto count = static_cast<std::size_t>(whole.extent.rows * whole.extent.columns);
  whole.values.resize(count);
  whole.ranks.assign(count, -1);
  const bool is_cut = output.placement == Placement::rows || output.placement == Placement::columns;
  for (int rank = 0; rank < ranks; ++rank) {
    if (output.placement == Placement::replicated && rank > 0) break;
    const std::vector<Value> own = values_of<Value>(*report.find(rank, output.name));
    for (std::int64_t i = 0; i < part.rows; ++i) {
      for (std::int64_t j = 0; j < part.columns; ++j) {
        const std::int64_t row =
            output.placement == Placement::rows ? line_in_whole(i, part.rows, output.stride, rank, ranks) : i;
        const std::int64_t column = output.placement == Placement::columns
                                        ? line_in_whole(j, part.columns, output.stride, rank, ranks)
                                        : j;
        const auto at = static_cast<std::size_t>(row * whole.extent.columns + column);
        const Value& value = own[static_cast<std::size_t>(i * part.columns + j)];
        whole.values[at] =
            output.placement == Placement::partial && rank > 0 ? whole.values[at] + value : value;
        if (is_cut) whole.ranks[at] = rank;
      }
    }
  }
  return whole;
}

std::string shown(double value) { return fmt::format("{:.9g}", value); }
std::string shown(const sim::Field& value) { return fmt::format("{}", fmt::join(value.residues, " ")); }

template <typename Value>
std::string where(const CaseOutput& output, const Assembled<Value>& whole, std::size_t i) {
  const auto columns = static_cast<std::size_t>(whole.extent.columns);
  return fmt::format("{}({}, {}){}", output.name, i / columns, i % columns,
                     whole.ranks[i] < 0 ? "" : fmt::format(" on rank {}", whole.ranks[i]));
}

// ---- against the reference ---------------------------------------------------------------------------------------

bool is_live(const sim::Field& value) {
  for (std::size_t level = 0; level < sim::kFieldLevels; ++level) {
    if (value.is_live(level)) return true;
  }
  return false;
}

/// ": every element is ... times the serial one", where one factor of the setting's numbers fits all of them.
std::string factor_between(const Assembled<sim::Field>& got, const reference::Matrix<sim::Field>& expected,
                           const CaseSetting& setting) {
  std::vector<std::pair<std::string, std::int64_t>> numbers = {{"tp", setting.tp}};
  for (const auto& [name, value] : setting.dimensions) {
    numbers.emplace_back(name, value);
    numbers.emplace_back("tp * " + name, setting.tp * value);
  }
  numbers.insert(numbers.end(), {{"2", 2}, {"-1", -1}, {"0", 0}});
  const auto fits = [&](const sim::Field& factor) {
    for (std::size_t i = 0; i < got.values.size(); ++i) {
      if (!(got.values[i] == factor * expected.data()[i])) return false;
    }
    return true;
  };
  for (const auto& [name, value] : numbers) {
    const sim::Field number = sim::Field::of(value);
    if (fits(number)) return fmt::format(": every element is {} ({}) times the serial one", name, value);
    if (value != 0 && fits(sim::Field::of(1) / number)) {
      return fmt::format(": every element is 1 / {} (1 / {}) of the serial one", name, value);
    }
  }
  return "";
}

Judgement compare(const CaseOutput& output, const Assembled<sim::Field>& got,
                  const reference::Matrix<sim::Field>& expected, const CaseSetting& setting) {
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const sim::Field& reference = expected.data()[i];
    if (!is_live(reference)) return fails(where(output, got, i) + ": no level of the field is left");
    if (got.values[i] == reference) continue;
    return fails(fmt::format("{} is {}, and {} in the serial layer{}", where(output, got, i),
                             shown(got.values[i]), shown(reference), factor_between(got, expected, setting)));
  }
  return {};
}

Judgement compare(const CaseOutput& output, const Assembled<double>& got,
                  const reference::Matrix<Bounded>& expected, const CaseSetting&) {
  Judgement judgement;
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const double value = got.values[i];
    const Bounded& reference = expected.data()[i];
    const bool both_nan = std::isnan(value) && std::isnan(reference.value());
    const double difference =
        value == reference.value() || both_nan ? 0 : std::fabs(value - reference.value());
    if (std::isinf(reference.error()) && std::isfinite(reference.value())) {
      return fails(where(output, got, i) + ": no bound can be derived");
    }
    if (difference <= reference.error() || both_nan) {
      if (difference > 0) judgement.slack = std::max(judgement.slack, difference / reference.error());
      continue;
    }
    return fails(fmt::format("{} is {}, and {} in the serial layer: off by {}, where rounding explains {}",
                             where(output, got, i), shown(value), shown(reference.value()), shown(difference),
                             shown(reference.error())));
  }
  return judgement;
}

template <typename Value, typename Scalar>
Judgement compare_all(const Case& the_case, const CaseSetting& setting, const sim::RunReport& report,
                      const reference::Number<Scalar>& number) {
  const Inputs<Scalar> inputs(setting, number);
  const Wholes<Scalar> wholes = the_case.serial(inputs, setting);
  Judgement all;
  for (const CaseOutput& output : the_case.outputs(setting)) {
    for (const sim::RankReport& rank : report.ranks) {
      if (report.find(rank.rank, output.name) == nullptr) {
        return fails(fmt::format("rank {} did not publish {}", rank.rank, output.name));
      }
    }
    const Assembled<Value> got = assembled<Value>(report, output);
    const reference::Matrix<Scalar>& expected = wholes.at(output.name);
    if (got.extent.rows != expected.rows() || got.extent.columns != expected.cols()) {
      return fails(fmt::format("{} is [{}, {}], and [{}, {}] in the serial layer", output.name,
                               got.extent.rows, got.extent.columns, expected.rows(), expected.cols()));
    }
    const Judgement one = compare(output, got, expected, setting);
    if (!one.holds) return one;
    all.slack = std::max(all.slack, one.slack);
  }
  return all;
}

/// Outputs that are to have the bits of the layer on one rank.
Judgement compare_bits(const Case& the_case, const CaseSetting& setting, const sim::RunReport& report) {
  CaseSetting serial = setting;
  serial.tp = 1;
  for (auto& [name, value] : serial.dimensions) {
    for (const Dimension& dimension : the_case.dimensions()) {
      if (dimension.name == name && dimension.is_a_rank) value *= setting.tp;
    }
  }
  const sim::RunReport alone = run_on(the_case, serial, world_of(serial, 1));
  for (const CaseOutput& output : the_case.outputs(setting)) {
    if (!output.same_order) continue;
    const Assembled<double> got = assembled<double>(report, output);
    const Assembled<double> expected = assembled<double>(alone, {.name = output.name});
    for (std::size_t i = 0; i < got.values.size(); ++i) {
      const bool same = std::memcmp(&got.values[i], &expected.values[i], sizeof(double)) == 0;
      if (same) continue;
      return fails(fmt::format("{} is {}, and {} on one rank, which adds in the same order",
                               where(output, got, i), shown(got.values[i]), shown(expected.values[i])));
    }
  }
  return {};
}

Judgement equals_serial(const Case& the_case, const CaseSetting& setting) {
  const sim::RunReport report = run_on(the_case, setting, world_of(setting, setting.tp));
  if (!report.ok()) return fails(report.findings.front().sentence);
  if (setting.dtype == sim::DType::field) {
    const sim::FieldTower tower(setting.seed);
    return compare_all<sim::Field>(the_case, setting, report, reference::Number<sim::Field>(tower));
  }
  reference::Rounding rounding = reference::rounding_of_f32(setting.tp);
  if (setting.dtype == sim::DType::f64) rounding = reference::rounding_of_f64(setting.tp);
  if (setting.dtype == sim::DType::bf16) rounding = reference::rounding_of_bf16(setting.tp);
  const Judgement judgement =
      compare_all<double>(the_case, setting, report, reference::Number<Bounded>(rounding));
  if (!judgement.holds) return judgement;
  const Judgement bits = compare_bits(the_case, setting, report);
  return bits.holds ? judgement : bits;
}

// ---- the others --------------------------------------------------------------------------------------------------

Judgement ranks_agree(const Case& the_case, const CaseSetting& setting) {
  const sim::RunReport report = run_on(the_case, setting, world_of(setting, setting.tp));
  if (!report.ok()) return fails(report.findings.front().sentence);
  for (const CaseOutput& output : the_case.outputs(setting)) {
    if (output.placement != Placement::replicated) continue;
    for (const sim::RankReport& rank : report.ranks) {
      const sim::Published* own = report.find(rank.rank, output.name);
      const sim::Published* first = report.find(report.ranks.front().rank, output.name);
      if (own != nullptr && first != nullptr && *own == *first) continue;
      return fails(fmt::format("{} differs between ranks {} and {}", output.name, report.ranks.front().rank,
                               rank.rank));
    }
  }
  return {};
}

Judgement makes_the_calls(const Case& the_case, const CaseSetting& setting) {
  const sim::RunReport report = run_on(the_case, setting, world_of(setting, setting.tp));
  if (!report.ok()) return fails(report.findings.front().sentence);
  const std::vector<ExpectedCall> expected =
      setting.tp == 1 ? std::vector<ExpectedCall>() : the_case.calls(setting);
  for (const sim::RankReport& rank : report.ranks) {
    for (std::size_t i = 0; i < std::max(expected.size(), rank.calls.size()); ++i) {
      const std::string wanted = i < expected.size()
                                     ? fmt::format("{} '{}' of {}", sim::name_of(expected[i].operation),
                                                   expected[i].site, expected[i].elements)
                                     : "no call";
      const std::string made = i < rank.calls.size()
                                   ? fmt::format("{} '{}' of {}", sim::name_of(rank.calls[i].operation),
                                                 rank.calls[i].site.name, rank.calls[i].count)
                                   : "no call";
      if (wanted == made) continue;
      return fails(
          fmt::format("rank {}, call {}: {}, where the closed form has {}", rank.rank, i, made, wanted));
    }
  }
  return {};
}

Judgement keeps_its_hash(const Case& the_case, const CaseSetting& setting) {
  sim::WorldSpec spec = world_of(setting, setting.tp);
  const std::uint64_t hash = run_on(the_case, setting, spec).run_hash;
  for (const int variant : {0, 1, 2}) {
    spec.schedule = {.policy = variant == 1 ? sim::SchedulePolicy::pct : sim::SchedulePolicy::uniform,
                     .seed = setting.seed + static_cast<std::uint64_t>(variant)};
    spec.threads = variant == 2 ? 2 : 1;
    spec.contexts = variant == 2 ? sim::ContextKind::thread : sim::ContextKind::fiber;
    if (run_on(the_case, setting, spec).run_hash == hash) continue;
    return fails(fmt::format("another run hash with {}", sim::text_of(spec)));
  }
  return {};
}

}  // namespace

const std::vector<Property>& all_properties() {
  static const std::vector<Property> properties = {
      {"serial", "made whole, every output equals the serial reference", equals_serial},
      {"agree", "what is declared replicated is the same on every rank, bit for bit", ranks_agree},
      {"calls", "each rank makes the calls, of the sizes, that the closed form says", makes_the_calls},
      {"schedules", "another schedule, more threads, ranks as threads: the same run hash", keeps_its_hash},
  };
  return properties;
}

}  // namespace verify
