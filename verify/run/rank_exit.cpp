#include "verify/run/rank_exit.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>

namespace verify {

namespace {

/// Returns "ended with exit code 3" or "was killed by SIGSEGV".
std::string how(const std::string& ended) {
  if (ended.empty()) return "did not end";
  if (!ended.starts_with('-')) return "ended with exit code " + ended;
  const char* name = sigabbrev_np(std::atoi(ended.c_str() + 1));
  return name == nullptr ? "was killed by signal " + ended.substr(1)
                         : fmt::format("was killed by SIG{}", name);
}

/// Says of ranks that are gone how their processes have ended.
void complete_gone(std::vector<sim::Finding>& findings, std::size_t rank, const std::string& ended) {
  const std::string of_rank = fmt::format("rank {}: ", rank);
  for (sim::Finding& finding : findings)
    if (finding.code == "guest_gone" && finding.sentence.starts_with(of_rank) && !ended.empty())
      finding.sentence += fmt::format("; it {}", how(ended));
}

}  // namespace

void add_rank_exits(sim::RunReport& report, const std::vector<std::string>& ended,
                    const std::string& reproduce) {
  const bool all_ended_their_calls = report.ok();
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    complete_gone(report.findings, rank, ended[rank]);
    if (!all_ended_their_calls || ended[rank] == "0") continue;
    report.reproduce = reproduce;
    report.findings.push_back({.code = "rank_exit",
                               .sentence = fmt::format("rank {}: its process {} after it had ended its calls",
                                                       rank, how(ended[rank])),
                               .rule = "the process of each rank ends with exit code 0",
                               .hint = "see the output of this rank"});
  }
}

}  // namespace verify
