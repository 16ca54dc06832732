#include "verify/run/rank_exit.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <map>

#include "sim/comm/process_group.h"

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
void complete_gone(sim::Finding& finding, const std::vector<std::string>& ended) {
  std::map<std::string, std::vector<int>> ranks;  // by how they have ended
  for (const sim::CallFacts& facts : finding.calls) {
    const std::string& code = ended[static_cast<std::size_t>(facts.rank)];
    if (!code.empty()) ranks[how(code)].push_back(facts.rank);
  }
  for (const auto& [text, alike] : ranks)
    finding.sentence +=
        fmt::format("; {} {}", finding.calls.size() == 1 ? "it" : sim::text_of_ranks(alike), text);
}

}  // namespace

void add_rank_exits(sim::RunReport& report, const std::vector<std::string>& ended,
                    const std::string& reproduce) {
  const bool all_ended_their_calls = report.ok();
  for (sim::Finding& finding : report.findings)
    if (finding.code == "guest_gone") complete_gone(finding, ended);
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
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
