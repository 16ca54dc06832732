#include "verify/explain/larger_settings.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "verify/explain/wrong_tensor.h"

namespace verify {

namespace {

std::size_t calls_of(const sim::RunReport& report) {
  std::size_t calls = 0;
  for (const sim::RankReport& rank : report.ranks) calls += rank.calls.size();
  return calls;
}

}  // namespace

bool bends(const Dimension& dimension) { return dimension.name == "steps" || dimension.name == "clip"; }

std::vector<CaseSetting> larger_settings(Bench& bench, const Case& the_case, const CaseSetting& setting,
                                         const sim::RunReport& report) {
  constexpr std::int64_t kSize = 3;
  const std::size_t calls = calls_of(report);
  std::vector<CaseSetting> larger = {setting};
  for (const Dimension& dimension : the_case.dimensions()) {
    CaseSetting other = larger.back();
    std::int64_t& size = other.dimensions[dimension.name];
    const std::int64_t raised = std::min(kSize, dimension.most);
    if (dimension.is_an_axis || dimension.least == 0 || bends(dimension) || size >= raised) continue;
    size = raised;
    const auto run = fit_run(bench, the_case, other);
    if (run != nullptr && calls_of(*run) == calls) larger.push_back(std::move(other));
  }
  larger.erase(larger.begin());
  std::reverse(larger.begin(), larger.end());
  return larger;
}

std::string text_of_larger(const CaseSetting& larger, const CaseSetting& setting) {
  std::vector<std::string> sizes;
  for (const auto& [name, value] : larger.dimensions) {
    if (setting[name] != value) sizes.push_back(fmt::format("{} {}", name, value));
  }
  return fmt::format("{}", fmt::join(sizes, ", "));
}

}  // namespace verify
