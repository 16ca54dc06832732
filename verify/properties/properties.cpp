#include "verify/properties/properties.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <stdexcept>

#include "sim/base/check.h"
#include "sim/base/exception_text.h"
#include "sim/base/field_sum.h"
#include "sim/base/printable_text.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/spread.h"
#include "verify/properties/assembled.h"
#include "verify/properties/bench.h"
#include "verify/properties/sent_bytes.h"

namespace verify {

namespace {

using reference::Bounded;

Judgement fails(std::string detail) { return {false, std::move(detail), 0}; }

/// Returns the judgement of a run that broke a contract, or whose outputs cannot be judged; none for others.
std::optional<Judgement> unfit(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                               const CaseSetting& setting) {
  if (!report.ok()) {
    Judgement broken = fails(report.findings.front().sentence);
    broken.finding = report.findings.front();
    return broken;
  }
  std::string wrong = check_published(report, outputs, setting.dtype);
  return wrong.empty() ? std::nullopt : std::optional(fails(std::move(wrong)));
}

// ---- comparison with the reference

std::string shown(double value) { return fmt::format("{:.9g}", value); }
/// Equal residues are those of a small whole number, which is shown once.
std::string shown(const sim::Field& value) {
  const bool are_equal = std::ranges::count(value.residues, value.residues[0]) == sim::kFieldLevels;
  return are_equal ? fmt::format("{}", value.residues[0]) : fmt::format("{}", fmt::join(value.residues, " "));
}

/// Whether two elements have the same residues on all levels that are live in both, of which there is one.
bool are_equal_where_live(const sim::Field& a, const sim::Field& b) {
  bool any = false;
  for (std::size_t level = 0; level < sim::kFieldLevels; ++level) {
    if (!a.is_live(level) || !b.is_live(level)) continue;
    if (a.residues[level] != b.residues[level]) return false;
    any = true;
  }
  return any;
}

Judgement compare(const CaseOutput& output, const Assembled<sim::Field>& got,
                  const reference::Matrix<sim::Field>& expected, const CaseSetting&) {
  Judgement in_levels;
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const sim::Field& reference = expected.data()[i];
    if (!has_value(reference))
      return fails(got.where(output.name, i) +
                   ": every level of the field was retired, so it cannot be judged");
    if (got.values[i] == reference) continue;
    Judgement wrong = fails(fmt::format("{} is {}, and {} in the serial layer", got.where(output.name, i),
                                        shown(got.values[i]), shown(reference)));
    if (!are_equal_where_live(got.values[i], reference)) return wrong;
    wrong.differs_in_levels_alone = true;
    if (in_levels.holds) in_levels = std::move(wrong);
  }
  return in_levels;
}

/// Whether rounding may have decided the result: infinity times a factor near 0, whose sign rounding decides,
/// is NaN or either infinity. A NaN without infinite inputs is not such a result.
bool sign_is_open(const CaseSetting& setting, const Bounded& reference) {
  const bool has_infinity =
      setting.special == Special::infinity || setting.special == Special::minus_infinity;
  return has_infinity && !std::isfinite(reference.error());
}

/// Compares an element that is not within its bound, or that has none. Returns what is wrong, or "".
std::string compare_special(double value, const Bounded& reference, const CaseSetting& setting,
                            Judgement& judgement) {
  const double serial = reference.value();
  if (reference.is_unknown()) {
    judgement.has_open_choice = true;
    return "";
  }
  if (value == serial || (std::isnan(value) && std::isnan(serial))) return "";
  const bool is_bounded = std::isfinite(serial) && std::isfinite(reference.error());
  if (!std::isfinite(value) && !std::isfinite(serial) && sign_is_open(setting, reference)) return "";
  if (std::isnan(value) != std::isnan(serial) || std::isinf(value) != std::isinf(serial))
    return fmt::format("{}, and {} in the serial layer", shown(value), shown(serial));
  if (!is_bounded) {
    judgement.has_unbounded = true;
    return "";
  }
  return fmt::format("{}, and {} in the serial layer: off by {}, where rounding explains {}", shown(value),
                     shown(serial), shown(std::fabs(value - serial)), shown(reference.error()));
}

Judgement compare(const CaseOutput& output, const Assembled<double>& got,
                  const reference::Matrix<Bounded>& expected, const CaseSetting& setting) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Judgement judgement;
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const double value = got.values[i];
    const Bounded& reference = expected.data()[i];
    const double difference = std::fabs(value - reference.value());
    if (difference <= reference.error() && reference.error() < kInfinity) {
      if (difference > 0) judgement.slack = std::max(judgement.slack, difference / reference.error());
      continue;
    }
    const std::string wrong = compare_special(value, reference, setting, judgement);
    if (!wrong.empty()) return fails(fmt::format("{} is {}", got.where(output.name, i), wrong));
  }
  return judgement;
}

template <typename Value, typename Scalar>
Judgement compare_all(const std::vector<CaseOutput>& outputs, const CaseSetting& setting,
                      const sim::RunReport& report, const Wholes<Scalar>& wholes) {
  Judgement all;
  for (const CaseOutput& output : outputs) {
    const Assembled<Value> got = assembled<Value>(report, output, setting.group_size);
    const auto known = wholes.find(output.name);
    if (known == wholes.end()) throw std::out_of_range("the serial reference does not return " + output.name);
    const reference::Matrix<Scalar>& expected = known->second;
    if (got.rows != expected.rows() || got.columns != expected.cols()) {
      return fails(fmt::format("{} is [{}, {}], and [{}, {}] in the serial layer", output.name, got.rows,
                               got.columns, expected.rows(), expected.cols()));
    }
    Judgement one = compare(output, got, expected, setting);
    if (!one.holds && !one.differs_in_levels_alone) return one;
    one.slack = std::max(all.slack, one.slack);
    one.has_unbounded = all.has_unbounded || one.has_unbounded;
    one.has_open_choice = all.has_open_choice || one.has_open_choice;
    if (!one.holds && all.holds) {
      all = std::move(one);
      continue;
    }
    all.slack = one.slack;
    all.has_unbounded = one.has_unbounded;
    all.has_open_choice = one.has_open_choice;
  }
  return all;
}

/// Compares the outputs that must have the bits of the layer on one rank.
Judgement compare_bits(Bench& bench, const Case& the_case, const CaseSetting& setting,
                       const std::vector<CaseOutput>& outputs, const sim::RunReport& report) {
  const bool any = std::ranges::any_of(outputs, [](const auto& o) { return o.same_order; });
  if (!any || setting.group_size == 1) return {};
  CaseSetting serial = setting;
  serial.group_size = serial.replicas = 1;
  for (const Dimension& dimension : the_case.dimensions()) {
    if (dimension.is_a_rank) serial.dimensions[dimension.name] *= setting.group_size;
  }
  const sim::RunReport alone = bench.run(the_case, serial, bench.world_of(the_case, serial));
  if (auto broken = unfit(alone, *bench.outputs_of(the_case, serial), serial)) return *broken;
  for (const CaseOutput& output : outputs) {
    if (!output.same_order) continue;
    const Assembled<double> got = assembled<double>(report, output, setting.group_size);
    const Assembled<double> expected = assembled<double>(alone, {.name = output.name}, 1);
    if (got.values.size() != expected.values.size()) {
      return fails(fmt::format("{} is [{}, {}], and [{}, {}] on one rank", output.name, got.rows, got.columns,
                               expected.rows, expected.columns));
    }
    for (std::size_t i = 0; i < got.values.size(); ++i) {
      const bool same = std::memcmp(&got.values[i], &expected.values[i], sizeof(double)) == 0;
      if (same) continue;
      return fails(fmt::format("{} is {}, and {} on one rank, which adds in the same order",
                               got.where(output.name, i), shown(got.values[i]), shown(expected.values[i])));
    }
  }
  return {};
}

Judgement equals_serial(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  const sim::RunReport& report = *run;
  const auto outputs = bench.outputs_of(the_case, setting);
  if (auto broken = unfit(report, *outputs, setting)) return *broken;
  if (setting.dtype == sim::DType::field) {
    const auto wholes = bench.known().in_field(the_case, setting, bench.tower(the_case, setting));
    return compare_all<sim::Field>(*outputs, setting, report, *wholes);
  }
  Judgement judgement =
      compare_all<double>(*outputs, setting, report, *bench.known().in_floats(the_case, setting));
  if (!judgement.holds || setting.special != Special::none) return judgement;
  const Judgement bits = compare_bits(bench, the_case, setting, *outputs, report);
  return bits.holds ? judgement : bits;
}

Judgement is_special_where_serial_is(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  static constexpr Special kSpecials[] = {Special::nan, Special::infinity, Special::minus_infinity,
                                          Special::large};
  CaseSetting special = setting;
  special.special = kSpecials[setting.seed % std::size(kSpecials)];
  Judgement judgement = equals_serial(bench, the_case, special);
  judgement.slack = 0;
  // Neither is reported, because it is usual with such inputs.
  judgement.has_unbounded = judgement.has_open_choice = false;
  return judgement;
}

// ---- the other properties

int first_rank_of(const CaseOutput& output, int part, int tp) {
  int rank = 0;
  while (output.part(rank, tp) != part) ++rank;
  return rank;
}

/// Returns the whole of an output for a comparison of bits, because runs may place its parts differently.
std::vector<double> whole_bits(const sim::RunReport& report, const CaseOutput& output,
                               const CaseSetting& setting, int copy = 0) {
  const int ranks = setting.group_size;
  if (setting.dtype != sim::DType::field) return assembled<double>(report, output, ranks, copy).values;
  std::vector<double> residues;
  for (const sim::Field& value : assembled<sim::Field>(report, output, ranks, copy).values)
    residues.insert(residues.end(), value.residues.begin(), value.residues.end());
  return residues;
}

/// Compares bits: NaN equals itself, and -0 does not equal 0.
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

/// Returns the copy of a replicated output that differs from its first copy, where the parts of the output
/// are copies; 0 if there is none.
int copy_that_differs(const sim::RunReport& report, const CaseOutput& output, const CaseSetting& setting) {
  if (output.placement != Placement::replicated) return 0;
  const int copies = output.parts(setting.group_size);
  if (copies == 1) return 0;
  const std::vector<double> first = whole_bits(report, output, setting);
  for (int copy = 1; copy < copies; ++copy) {
    if (!same_bits(first, whole_bits(report, output, setting, copy))) return copy;
  }
  return 0;
}

/// Returns the first output that is declared the same on several ranks and is not; "" if there is none.
std::string disagreement(const sim::RunReport& report, const std::vector<CaseOutput>& outputs,
                         const CaseSetting& setting) {
  for (const CaseOutput& output : outputs) {
    if (const int copy = copy_that_differs(report, output, setting); copy > 0)
      return fmt::format("{} differs between its copies 0 and {}", output.name, copy);
    for (const sim::RankReport& rank : report.ranks) {
      const int part = output.part(rank.rank, setting.group_size);
      if (part < 0 || (output.is_sum() && !output.part_of.empty())) continue;
      const int twin = output.part_of.empty() && output.is_sum()
                           ? rank.rank % setting.group_size
                           : first_rank_of(output, part, setting.group_size);
      const sim::Published* own = report.find(rank.rank, output.name);
      const sim::Published* first = report.find(twin, output.name);
      if (!(*own == *first))
        return fmt::format("{} differs between ranks {} and {}", output.name, twin, rank.rank);
    }
  }
  return "";
}

Judgement ranks_agree(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  const auto outputs = bench.outputs_of(the_case, setting);
  if (auto broken = unfit(*run, *outputs, setting)) return *broken;
  const std::string differs = disagreement(*run, *outputs, setting);
  return differs.empty() ? Judgement{} : fails(differs);
}

Judgement makes_the_calls(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  const sim::RunReport& report = *run;
  if (auto broken = unfit(report, *bench.outputs_of(the_case, setting), setting)) return *broken;
  const ExpectedOfRank expected_of_rank = bench.known().calls(the_case, setting);
  for (const sim::RankReport& rank : report.ranks) {
    const ExpectedRun run_of_rank = expected_of_rank(rank.rank);
    if (!run_of_rank.is_known) return {.has_open_choice = true};
    if (!run_of_rank.departure.empty())
      return fails(fmt::format("rank {}: {}", rank.rank, run_of_rank.departure));
    const std::vector<ExpectedCall>& expected = run_of_rank.calls;
    for (std::size_t i = 0; i < std::max(expected.size(), rank.calls.size()); ++i) {
      const bool has_both = i < expected.size() && i < rank.calls.size();
      if (has_both && expected[i] == as_expected(rank.calls[i])) continue;
      const std::string wanted = i < expected.size() ? text_of(expected[i]) : "no call";
      const std::string made = i < rank.calls.size() ? text_of(as_expected(rank.calls[i])) : "no call";
      if (wanted == made) continue;
      return fails(
          fmt::format("rank {}, call {}: {}, where the closed form has {}", rank.rank, i, made, wanted));
    }
    for (std::size_t i = 0; i < rank.calls.size(); ++i) {
      const std::string wrong = wrong_bytes(rank.calls[i], rank.rank, expected[i].elements_to);
      if (!wrong.empty()) return fails(fmt::format("rank {}: {}", rank.rank, wrong));
    }
  }
  return {};
}

Judgement is_adjoint(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  const sim::RunReport& report = *run;
  const auto outputs = bench.outputs_of(the_case, setting);
  if (auto broken = unfit(report, *outputs, setting)) return *broken;
  const auto whole = [&](const std::string& name) {
    const auto output =
        std::find_if(outputs->begin(), outputs->end(), [&](const auto& o) { return o.name == name; });
    return assembled<sim::Field>(report, *output, setting.group_size);
  };
  /// Adds the products of a term to the sum. Returns why a tensor has no product with its gradient, or "".
  const auto add_product = [&](const AdjointTerm& term, sim::FieldSum& sum) -> std::string {
    const Assembled<sim::Field> value = whole(term.value), gradient = whole(term.gradient);
    if (value.rows != gradient.rows || value.columns != gradient.columns) {
      return fmt::format("{} is [{}, {}], but {}, whose gradient it is, is [{}, {}]", term.gradient,
                         gradient.rows, gradient.columns, term.value, value.rows, value.columns);
    }
    for (std::size_t i = 0; i < value.values.size(); ++i)
      sum.add_product(value.values[i], gradient.values[i]);
    return "";
  };
  sim::FieldSum result;
  if (std::string wrong = add_product({"output", "grad_output"}, result); !wrong.empty()) return fails(wrong);
  for (const AdjointIdentity& identity : the_case.adjoint(setting)) {
    sim::FieldSum sum;
    for (const AdjointTerm& term : identity) {
      if (std::string wrong = add_product(term, sum); !wrong.empty()) return fails(wrong);
    }
    if (result.value() == sum.value()) continue;
    return fails(fmt::format("<output, grad_output> is {}, but <{}, {}>{} is {}", shown(result.value()),
                             identity.front().value, identity.front().gradient,
                             identity.size() > 1 ? " with the bias" : "", shown(sum.value())));
  }
  return {};
}

Judgement equals_its_twins(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::vector<CaseSetting> twins = the_case.twins(setting);
  if (twins.empty())
    return fails("twins() returns no settings here, although it does at the smallest setting");
  std::map<std::string, std::vector<double>> first;
  for (auto next = twins.begin(); next != twins.end(); ++next) {
    const CaseSetting& twin = *next;
    if (std::find(twins.begin(), next, twin) != next) continue;  // it has run already
    const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, twin);
    const auto outputs = bench.outputs_of(the_case, twin);
    if (auto broken = unfit(*run, *outputs, twin)) return *broken;
    for (const CaseOutput& output : *outputs) {
      if (output.is_of_the_way) continue;
      std::vector<double> bits = whole_bits(*run, output, twin);
      const auto [known, is_new] = first.emplace(output.name, bits);
      if (is_new || same_bits(known->second, bits)) {
        continue;
      }
      return fails(
          fmt::format("{} differs between {} and {}", output.name, text_of(twins.front()), text_of(twin)));
    }
  }
  return {};
}

/// Compares a stretch that takes no step with the one that it has loaded. Returns how an output of both
/// differs, or nothing.
std::string lost_in_loading(Bench& bench, const Case& the_case, const CaseSetting& of_saved,
                            const sim::RunReport& saved, const CaseSetting& of_loaded,
                            const sim::RunReport& loaded) {
  std::map<std::string, std::vector<double>> kept;
  for (const CaseOutput& output : *bench.outputs_of(the_case, of_saved))
    kept.emplace(output.name, whole_bits(saved, output, of_saved));
  for (const CaseOutput& output : *bench.outputs_of(the_case, of_loaded)) {
    const auto before = kept.find(output.name);
    if (output.is_of_the_way || before == kept.end()) continue;
    if (!same_bits(before->second, whole_bits(loaded, output, of_loaded)))
      return fmt::format("{} is not what was saved", output.name);
  }
  return "";
}

Judgement resumes(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::vector<CaseSetting> stretches = the_case.stretches(setting);
  if (stretches.empty())
    return fails("stretches() returns none here, although it does at the smallest setting");
  CaseSetting never_stopped = stretches.front();
  never_stopped.stretch = std::nullopt;
  const std::shared_ptr<const sim::RunReport> whole = bench.run(the_case, never_stopped);
  if (auto broken = unfit(*whole, *bench.outputs_of(the_case, never_stopped), never_stopped)) return *broken;
  sim::RunReport last;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const CaseSetting& stretch = stretches[i];
    const sim::RunReport before =
        std::exchange(last, bench.run(the_case, stretch, bench.world_of(the_case, stretch)));
    const auto outputs = bench.outputs_of(the_case, stretch);
    std::optional<Judgement> broken = unfit(last, *outputs, stretch);
    if (!broken) {
      std::string differs = disagreement(last, *outputs, stretch);
      const bool only_loads = stretch.stretch->first == stretch.stretch->last;
      if (differs.empty() && only_loads)
        differs = lost_in_loading(bench, the_case, stretches[i - 1], before, stretch, last);
      if (!differs.empty()) broken = fails(std::move(differs));
    }
    if (!broken) continue;
    broken->detail = fmt::format("{}: {}", text_of(stretch), broken->detail);
    return *broken;
  }
  const auto outputs = bench.outputs_of(the_case, stretches.back());
  for (const CaseOutput& output : *outputs) {
    if (same_bits(whole_bits(*whole, output, never_stopped), whole_bits(last, output, stretches.back())))
      continue;
    return fails(fmt::format("{} differs from a training that was not stopped: {}", output.name,
                             text_of(stretches.back())));
  }
  return {};
}

/// Returns the smallest setting of a case, which is enough to tell which properties the case has.
CaseSetting least_setting(const Case& the_case) {
  CaseSetting setting;
  for (const Dimension& dimension : the_case.dimensions())
    setting.dimensions[dimension.name] = dimension.least;
  return setting;
}
bool is_linear(const Case& the_case) { return !the_case.adjoint(least_setting(the_case)).empty(); }
bool has_stretches(const Case& the_case) { return !the_case.stretches(least_setting(the_case)).empty(); }
bool has_twins(const Case& the_case) { return !the_case.twins(least_setting(the_case)).empty(); }

Judgement keeps_its_hash(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  sim::WorldSpec spec = bench.world_of(the_case, setting);
  const sim::RunReport first = bench.run(the_case, setting, spec);
  if (auto broken = unfit(first, *bench.outputs_of(the_case, setting), setting)) return *broken;
  for (const int variant : {0, 1, 2}) {
    spec.schedule = {.policy = variant == 1 ? sim::SchedulePolicy::pct : sim::SchedulePolicy::uniform,
                     .seed = setting.seed + static_cast<std::uint64_t>(variant)};
    spec.threads = variant == 2 ? 2 : 1;
    spec.contexts = variant == 2 ? sim::ContextKind::thread : sim::ContextKind::fiber;
    if (bench.run(the_case, setting, spec).run_hash == first.run_hash) continue;
    return fails(fmt::format("the run hash differs with {}", sim::text_of(spec)));
  }
  return {};
}

}  // namespace

Wholes<Bounded> bounded_reference(const Case& the_case, const CaseSetting& setting) {
  const reference::Rounding rounding = rounding_of(setting.dtype, setting.group_size);
  return the_case.serial(Inputs<Bounded>(setting, reference::Number<Bounded>(rounding)), setting);
}

Judgement judge_floats(const Case& the_case, const CaseSetting& setting, const sim::RunReport& report,
                       const Wholes<reference::Bounded>& wholes) {
  const std::vector<CaseOutput> outputs = the_case.outputs(setting);
  if (auto broken = unfit(report, outputs, setting)) return *broken;
  return compare_all<double>(outputs, setting, report, wholes);
}

const std::vector<Property>& all_properties() {
  using DTypes = Property::DTypes;
  static const std::vector<Property> properties = {
      {"serial", "after gathering shards, every output equals the serial reference", equals_serial},
      {"agree", "replicated tensors are bit-identical on all ranks", ranks_agree},
      {"calls", "each rank issues exactly the expected collectives, with their sizes and reductions",
       makes_the_calls},
      {"adjoint",
       "over the group, <output, grad_output> equals <input, grad_input>, and <weight, weight_grad>",
       is_adjoint, DTypes::field, is_linear},
      {"twins", "equivalent implementations (buckets, overlap, ZeRO-1 or not, dispatchers) agree bit for bit",
       equals_its_twins, DTypes::all, has_twins},
      {"resumes", "saved, resumed on another number of ranks and back: bit-identical", resumes, DTypes::all,
       has_stretches},
      {"special", "NaN, infinity and large inputs: NaN where the serial reference is, and only there",
       is_special_where_serial_is, DTypes::floats},
      {"schedules", "another schedule, more threads, ranks as threads: the same run hash", keeps_its_hash},
  };
  return properties;
}

const Property& property_named(const std::string& name) {
  const auto& all = all_properties();
  const auto found = std::ranges::find_if(all, [&](const Property& p) { return name == p.name; });
  SIM_CHECK(found != all.end());
  return *found;
}

Judgement judge_setting(const Property& property, Bench& bench, const Case& the_case,
                        const CaseSetting& setting) {
  try {
    return property.judge(bench, the_case, setting);
  } catch (const std::exception& error) {
    return {.holds = false,
            .detail = fmt::format("the case threw: {}", sim::printable_text(sim::text_of(error))),
            .threw = true};
  }
}

}  // namespace verify
