#include "verify/explain/explained_floats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "verify/cases/case_inputs.h"
#include "verify/cases/spread.h"
#include "verify/explain/wrong_tensor.h"
#include "verify/properties/assembled.h"
#include "verify/properties/call_values.h"
#include "verify/properties/properties.h"
#include "verify/properties/published_tensors.h"

namespace verify {

namespace {

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
std::string float_factor(const Case& the_case, const CaseSetting& setting, const std::vector<double>& got,
                         const Bounds& serial) {
  if (!shows_a_factor(serial)) return "";
  if (std::all_of(got.begin(), got.end(), [](double x) { return x == 0; })) return "every element is zero";
  std::vector<NamedNumber> numbers = the_case.factors(setting);
  numbers.push_back({name_of(setting.ranks), setting.group_size});
  for (const std::int64_t number : {-1, 2}) numbers.push_back({fmt::format("{}", number), number});
  for (std::int64_t power = 4; power <= std::int64_t{1} << 24; power *= 2)
    numbers.push_back({fmt::format("{}", power), power});
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

/// The ranks that give a site nothing but what bf16 can hold, and those that give it more.
struct Precision {
  std::set<int> narrow, wide;
};

/// Returns the precision of what reaches the groups, by site. A few values may fit into bf16 by chance: a
/// rank counts as narrow where it is with each of several seeds, and where not all that it gives is zero.
std::map<std::string, Precision> precisions(Bench& bench, const Case& the_case, CaseSetting setting) {
  constexpr int kSeeds = 4;
  std::map<std::string, Precision> all;
  for (int tried = 0; tried < kSeeds; ++tried, ++setting.seed) {
    for (const auto& [site, of_ranks] : call_values(bench, the_case, setting, WatchedSide::group)) {
      Precision& precision = all[site];
      for (int rank = 0; rank < std::ssize(of_ranks); ++rank) {
        const CallValues& values = of_ranks[static_cast<std::size_t>(rank)];
        if (values.gives_a_number) (values.gives_wide ? precision.wide : precision.narrow).insert(rank);
      }
    }
  }
  for (auto& [site, precision] : all)
    std::erase_if(precision.narrow, [&](int rank) { return precision.wide.contains(rank); });
  return all;
}

/// Returns "" for no sites, and for too many to tell.
std::string text_of_narrow(const std::vector<std::string>& sites, const std::string& ranks_give,
                           const char* rest) {
  constexpr std::size_t kMostSites = 3;
  if (sites.empty() || sites.size() > kMostSites) return "";
  return fmt::format(" What {} to '{}' has the precision of bf16{}.", ranks_give, fmt::join(sites, "' or '"),
                     rest);
}

/// Returns the sites to which all ranks give what has the precision of bf16 already, and those to which some
/// ranks do and others do not.
std::string text_of_narrow_sites(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  if (setting.dtype != sim::DType::f32 && setting.dtype != sim::DType::f64) return "";
  std::vector<std::string> of_all;
  std::map<std::set<int>, std::vector<std::string>> of_some;
  for (const auto& [site, precision] : precisions(bench, the_case, setting)) {
    if (precision.narrow.empty()) continue;
    (precision.wide.empty() ? of_all : of_some[precision.narrow]).push_back(site);
  }
  std::string text = text_of_narrow(of_all, "ranks give", ": to round it changes nothing");
  for (const auto& [ranks, sites] : of_some) {
    const bool is_one = ranks.size() == 1;
    const std::string give = fmt::format("{} {}", text_of_ranks(ranks, SIZE_MAX), is_one ? "gives" : "give");
    text += text_of_narrow(sites, give, ", and what other ranks give has not");
  }
  return text;
}

bool is_right_in_floats(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  const std::vector<CaseOutput> outputs = the_case.outputs(setting);
  if (!run->ok() || !check_outputs(*run, outputs, setting.dtype).empty()) return false;
  const auto wholes = bench.known().in_floats(the_case, setting);
  return std::all_of(outputs.begin(), outputs.end(), [&](const CaseOutput& output) {
    const std::vector<double> got = assembled<double>(*run, output, setting.group_size).values;
    const auto serial = wholes->find(output.name);
    return serial != wholes->end() && static_cast<Eigen::Index>(got.size()) == serial->second.size() &&
           lies_within(got, serial->second, 1);
  });
}

/// A training with a loss scale has a step in floats that is skipped, because a gradient is not finite. The
/// field has no such gradient. Returns "" where the training is wrong without a loss scale, too.
std::string text_of_skipped_step(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const auto scaled = setting.dimensions.find("scaled");
  if (the_case.stretches(setting).empty() || scaled == setting.dimensions.end() || scaled->second == 0)
    return "";
  CaseSetting other = setting;
  other.dimensions["scaled"] = 0;
  if (!is_right_in_floats(bench, the_case, other)) return "";
  return " All is right with scaled 0: with a loss scale, and not in the field, a step is skipped whose "
         "gradient "
         "is not finite.";
}

}  // namespace

std::string explain_floats(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
  if (!run->ok() || !check_outputs(*run, the_case.outputs(setting), setting.dtype).empty()) return "";
  const auto wholes = bench.known().in_floats(the_case, setting);
  for (const CaseOutput& output : the_case.outputs(setting)) {
    const std::vector<double> got = assembled<double>(*run, output, setting.group_size).values;
    const auto serial = wholes->find(output.name);
    if (serial == wholes->end() || static_cast<Eigen::Index>(got.size()) != serial->second.size()) return "";
    if (lies_within(got, serial->second, 1)) continue;
    const std::string begins = fmt::format(
        "in the field all is equal, and in {} {} is not: ", sim::name_of(setting.dtype), output.name);
    const std::string factor = float_factor(the_case, setting, got, serial->second);
    const std::string skipped = text_of_skipped_step(bench, the_case, setting);
    if (!factor.empty()) return begins + factor + "." + skipped;
    if (!skipped.empty()) return begins + "it is off by more than rounding explains." + skipped;
    if (lies_within(got, serial->second, 1, coarsest_rounding(setting.dtype))) break;
    return begins +
           "it is off by more than rounding every operation to bf16 would explain. Something is "
           "computed there that the field does not compute.";
  }
  return "in the field all is equal: the algebra is right, and the rounding, precision or order is not." +
         text_of_narrow_sites(bench, the_case, setting);
}

}  // namespace verify
