#include "verify/properties/explained_sites.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <vector>

#include "verify/faults/faulty_device.h"
#include "verify/properties/wrong_tensor.h"

namespace verify {

namespace {

using Names = std::set<std::string>;

/// A change of the result at each site that the run reaches. Of a training only calls are tried, because it
/// runs many kernels.
std::vector<Fault> probes(const Bench& bench, const CaseSetting& setting, const sim::RunReport& report) {
  Names sites;
  for (const sim::RankReport& rank : report.ranks) {
    for (const sim::CallRecord& call : rank.calls) {
      const bool gets = sim::moves_data(call.operation) && call.operation != sim::Operation::send;
      if (gets && call.group->size() > 1) sites.insert(call.site.name);
    }
  }
  std::vector<Fault> all;
  for (const std::string& site : sites) all.push_back(parsed_fault(site + ":scale=3"));
  if (setting.ranks == Ranks::world || !bench.takes_faults_of_kernels()) return all;
  for (const std::string& kernel : kernel_names()) all.push_back(parsed_fault(kernel + ":zero"));
  return all;
}

/// Returns the tensors that differ between two runs on some rank.
Names differing(const sim::RunReport& one, const sim::RunReport& other) {
  Names names;
  for (const sim::RankReport& rank : one.ranks) {
    for (const sim::Published& tensor : rank.published) {
      const sim::Published* twin = other.find(rank.rank, tensor.name);
      if (twin == nullptr || !(*twin == tensor)) names.insert(tensor.name);
    }
  }
  return names;
}

/// A site, and how many tensors it reaches besides the wrong ones.
struct Reaching {
  std::string site;
  std::size_t others;
};

std::string text_of_sites(std::vector<Reaching> reaching) {
  constexpr std::size_t kMostSites = 3;
  std::size_t fewest = SIZE_MAX;
  for (const Reaching& one : reaching) fewest = std::min(fewest, one.others);
  std::vector<std::string> sites;
  for (const Reaching& one : reaching) {
    if (one.others == fewest) sites.push_back(fmt::format("'{}'", one.site));
  }
  if (sites.empty() || sites.size() > kMostSites) return "";
  return fmt::format("the wrong tensors are {} {} {}", fewest == 0 ? "those that" : "among those that",
                     fmt::join(sites, " or "), "reaches");
}

}  // namespace

std::string explain_sites(Bench& bench, const Case& the_case, const CaseSetting& setting,
                          const sim::RunReport& report) {
  Names wrong;
  const ComparedRun compared = compared_run(bench, the_case, setting, report);
  for (const WrongTensor& tensor : wrong_tensors(compared).wrong) wrong.insert(tensor.output.name);
  if (wrong.empty()) return "";
  const std::vector<Fault> planted = bench.faults();
  std::vector<Reaching> reaching;
  for (const Fault& probe : probes(bench, setting, report)) {
    std::vector<Fault> with_probe = planted;
    with_probe.insert(with_probe.begin(), probe);  // it changes what the program gets in the end
    bench.plant(std::move(with_probe));
    const std::shared_ptr<const sim::RunReport> run = bench.run(the_case, setting);
    if (!run->ok()) continue;
    const Names reached = differing(report, *run);
    if (std::includes(reached.begin(), reached.end(), wrong.begin(), wrong.end()))
      reaching.push_back({probe.site, reached.size() - wrong.size()});
  }
  bench.plant(planted);
  return text_of_sites(std::move(reaching));
}

}  // namespace verify
