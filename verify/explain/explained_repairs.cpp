#include "verify/explain/explained_repairs.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <set>
#include <vector>

#include "verify/explain/field_ratio.h"
#include "verify/properties/published_tensors.h"

namespace verify {

namespace {

using sim::Field;

Fault change_at(const std::string& site, const char* what, const FaultWhere& where) {
  Fault fault = parsed_fault(site + ":" + what);
  fault.where = where;
  return fault;
}

/// Returns the fraction that of / to is: of small numbers, or of a power of two and one beside it.
std::optional<sim::Ratio> ratio_of(const Field& of, const Field& to) {
  if (const auto small = small_fraction(of, to)) return sim::Ratio{small->numerator, small->denominator};
  constexpr int kMostBits = 30;
  for (int bits = 1; bits <= kMostBits; ++bits) {
    const std::int64_t whole = std::int64_t{1} << bits;
    for (const std::int64_t beside : {whole + 1, whole - 1}) {
      if (Field::of(whole) * to == Field::of(beside) * of) return sim::Ratio{whole, beside};
      if (Field::of(beside) * to == Field::of(whole) * of) return sim::Ratio{beside, whole};
    }
  }
  return std::nullopt;
}

struct Quotient {
  Field of, to;
};

/// Returns the number that the quotients of all wrong elements are, if they are one number. `quotient_of`
/// gives the quotient of an element, or none.
template <typename QuotientOf>
std::optional<sim::Ratio> common_factor(const WrongTensor& tensor, const QuotientOf& quotient_of) {
  std::optional<sim::Ratio> factor;
  for (std::size_t i = 0; i < tensor.got.size(); ++i) {
    if (!tensor.is_wrong[i]) continue;
    const std::optional<Quotient> quotient = quotient_of(i);
    if (!quotient) return std::nullopt;
    const auto& [of, to] = *quotient;
    if (!factor) factor = ratio_of(of, to);
    if (!factor || !(Field::of(factor->numerator) * to == Field::of(factor->denominator) * of))
      return std::nullopt;
  }
  return factor;
}

/// Returns the number by which a result must be multiplied for this tensor to be right, if the tensor is
/// linear in the result: between the run and the one with the result tripled the tensor changes by twice its
/// part.
std::optional<sim::Ratio> factor_by(const WrongTensor& tensor, const WrongTensor& tripled) {
  return common_factor(tensor, [&](std::size_t i) -> std::optional<Quotient> {
    const Field change = tripled.got[i] - tensor.got[i];
    if (change == Field::of(0)) return std::nullopt;
    const Field missing = tensor.serial.data()[i] - tensor.got[i];
    return Quotient{change + missing + missing, change};
  });
}

/// Returns the same for a tensor that is divided by the result: it is a third of what it was where the result
/// is tripled.
std::optional<sim::Ratio> factor_of_divisor(const WrongTensor& tensor, const WrongTensor& tripled) {
  return common_factor(tensor, [&](std::size_t i) -> std::optional<Quotient> {
    const Field got = tensor.got[i];
    if (got == Field::of(0) || !(Field::of(3) * tripled.got[i] == got)) return std::nullopt;
    return Quotient{got, tensor.serial.data()[i]};
  });
}

std::optional<sim::Ratio> repairing_factor(const ComparedRun& run, const WrongTensors& tensors,
                                           const sim::RunReport& changed) {
  constexpr std::size_t kMostTensors = 3;
  const ComparedRun tripled{run.the_case, run.setting, changed, run.number, run.serial, run.inputs};
  for (std::size_t i = 0; i < std::min(tensors.wrong.size(), kMostTensors); ++i) {
    const WrongTensor& tensor = tensors.wrong[i];
    const WrongTensor of_tripled = compared_tensor(tripled, tensor.output);
    if (const auto factor = factor_of_divisor(tensor, of_tripled)) return factor;
    if (const auto factor = factor_by(tensor, of_tripled)) return factor;
  }
  return std::nullopt;
}

/// `name` is that of the site in what a repair says.
void add_repairs_of_call(const ComparedRun& run, const WrongTensors& tensors, const ChangedSite& site,
                         const std::string& name, const FaultWhere& where, std::vector<Repair>& repairs) {
  const auto applies = [&](FaultKind kind) {
    return std::any_of(site.operations.begin(), site.operations.end(), info_of(kind).applies);
  };
  // The factor by which a tensor says it is wrong is tried first, then those of a group's size. A negative
  // one comes last: a tensor that depends on the result in another way may seem to say it.
  const auto factor = site.changed == nullptr ? std::nullopt : repairing_factor(run, tensors, *site.changed);
  std::vector<sim::Ratio> factors;
  if (site.changed != nullptr) factors = {{1, site.places}, {site.places, 1}};
  if (factor) factors.insert(factor->numerator < 0 ? factors.end() : factors.begin(), *factor);
  for (const sim::Ratio& ratio : factors) {
    Fault scale = change_at(site.site, "scale=2", where);
    scale.factor.number = ratio;
    const std::string number = ratio.denominator == 1
                                   ? fmt::format("{}", ratio.numerator)
                                   : fmt::format("{}/{}", ratio.numerator, ratio.denominator);
    repairs.push_back({{scale}, fmt::format("the result of {} is multiplied by {}", name, number)});
  }
  if (!applies(FaultKind::swap_blocks)) return;
  repairs.push_back({{change_at(site.site, "swap-blocks", where)},
                     fmt::format("the first two blocks of {} change places", name)});
  if (site.places == 2) return;
  const auto turns = static_cast<std::size_t>(site.places - 1);
  repairs.push_back({std::vector<Fault>(turns, change_at(site.site, "next-block", where)),
                     fmt::format("each block of {} is the block of the place before", name)});
}

void add_repairs_of_kernel(const ChangedSite& site, const FaultWhere& where, std::vector<Repair>& repairs) {
  constexpr std::pair<const char*, const char*> kChanges[] = {
      {"offset=1", "the results of {} are shifted by one element"},
      {"transpose", "the results of {} are transposed"},
      {"drop-accumulate", "{} adds to what was there"}};
  for (const auto& [change, says] : kChanges) {
    Fault fault = change_at(site.site, change, where);
    fault.is_undone = true;
    repairs.push_back({{fault}, fmt::format(fmt::runtime(says), site.name())});
  }
}

/// Returns the same changes at each of the sites.
std::vector<Fault> at_each(const std::vector<ChangedSite>& sites, const std::vector<Fault>& changes) {
  std::vector<Fault> all;
  for (const ChangedSite& site : sites) {
    for (Fault fault : changes) {
      fault.site = site.site;
      all.push_back(std::move(fault));
    }
  }
  return all;
}

}  // namespace

bool makes_all_right(Bench& bench, const ComparedRun& run, std::vector<Fault> planted,
                     const std::vector<Fault>& on_top) {
  planted.insert(planted.end(), on_top.begin(), on_top.end());
  bench.plant(std::move(planted));
  const std::shared_ptr<const sim::RunReport> repaired = bench.run(run.the_case, run.setting);
  if (!repaired->ok() || repaired->run_hash == run.report.run_hash) return false;
  const auto outputs = bench.outputs_of(run.the_case, run.setting);
  if (!check_outputs(*repaired, *outputs, run.setting.dtype).empty()) return false;
  const ComparedRun compared{run.the_case, run.setting, *repaired, run.number, run.serial, run.inputs};
  const WrongTensors left = wrong_tensors(compared);
  return left.wrong.empty() && left.right.size() == outputs->size();
}

Repair find_repair(Bench& bench, const ComparedRun& run, const WrongTensors& tensors, const ChangedSite& site,
                   const std::vector<Fault>& planted, FaultWhere where) {
  std::vector<Repair> repairs;
  where.group = site.kind;
  if (site.is_kernel()) {
    add_repairs_of_kernel(site, where, repairs);
  } else {
    add_repairs_of_call(run, tensors, site, site.name(), where, repairs);
  }
  for (Repair& repair : repairs) {
    if (makes_all_right(bench, run, planted, repair.faults)) return std::move(repair);
  }
  return {};
}

Repair find_shared_repair(Bench& bench, const ComparedRun& run, const WrongTensors& tensors,
                          std::vector<ChangedSite> sites, const std::vector<Fault>& planted) {
  const auto is_right_with = [&](const std::vector<ChangedSite>& changed, const Repair& repair) {
    return makes_all_right(bench, run, planted, at_each(changed, repair.faults));
  };
  std::vector<Repair> repairs;
  for (const ChangedSite& site : sites) add_repairs_of_call(run, tensors, site, "{}", {}, repairs);
  std::set<std::string> tried;
  for (const Repair& repair : repairs) {
    if (!tried.insert(repair.says).second || !is_right_with(sites, repair)) continue;
    for (std::size_t i = sites.size(); i-- > 0;) {
      std::vector<ChangedSite> fewer = sites;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (is_right_with(fewer, repair)) sites = std::move(fewer);
    }
    std::vector<std::string> names;
    for (const ChangedSite& site : sites) names.push_back(site.name());
    return {at_each(sites, repair.faults),
            fmt::format(fmt::runtime(repair.says), fmt::format("each of {}", fmt::join(names, ", ")))};
  }
  return {};
}

}  // namespace verify
