#include "verify/run/compared_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/comm/process_group.h"
#include "verify/output/phrases.h"
#include "verify/output/text_table.h"

namespace verify {

namespace {

std::string verdict_of(const ComparedRow& row) {
  if (row.is_broken) return "broken";
  if (!row.compared.incomparable.empty()) return "incomparable";
  return row.compared.holds() ? "holds" : "falsified";
}

}  // namespace

std::string wrong_sentence(const WrongValue& wrong) {
  const std::vector<int> ranks(wrong.ranks.begin(), wrong.ranks.end());
  const std::string where = ranks.empty() ? "" : " on " + sim::text_of_ranks(ranks);
  return fmt::format("{}{}: {}", text_of(wrong.key), where, wrong.what);
}

std::string compared_table(const std::string& called, const std::vector<ComparedRow>& rows) {
  const auto holding =
      std::ranges::count_if(rows, [](const ComparedRow& row) { return row.compared.holds(); });
  TextTable table({called, ">ranks", "verdict", ">values", ">wrong", ">worst slack"});
  for (const ComparedRow& row : rows) {
    const std::string verdict = verdict_of(row);
    table.row(row.name, row.ranks, verdict == "falsified" ? "FALSIFIED" : verdict,
              grouped_digits(row.compared.values), grouped_digits(std::ssize(row.compared.wrong)),
              row.compared.holds() ? fmt::format("{:.1e}", row.compared.worst_slack) : "-");
  }
  return fmt::format("{} of {} {}s compute what the reference computes\n\n{}", holding, std::ssize(rows),
                     called, table.text("  "));
}

std::string kinds_text(const std::vector<ComparedRow>& rows) {
  std::set<PublishedKind> kinds;
  for (const ComparedRow& row : rows) kinds.insert(row.compared.kinds.begin(), row.compared.kinds.end());
  std::vector<std::string> names;
  for (const PublishedKind kind : kinds) names.push_back(plural_of(kind));
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

std::string wrong_text(const std::string& name, const ComparedValues& compared, const std::string& end) {
  if (!compared.incomparable.empty())
    return fmt::format("\n{}: its numbers are not those of the reference: {}\n", name, compared.incomparable);
  if (compared.wrong.empty()) return "";
  std::string text = fmt::format("\n{}: {}\n", name, wrong_sentence(compared.wrong.front()));
  constexpr std::size_t kShown = 3;
  for (std::size_t i = 1; i < std::min(kShown, compared.wrong.size()); ++i)
    text += fmt::format("  then       {}\n", wrong_sentence(compared.wrong[i]));
  if (compared.wrong.size() > kShown)
    text += fmt::format("  ... and {} more\n", compared.wrong.size() - kShown);
  return text + end;
}

std::string left_out_text(const std::set<std::string>& names) {
  if (names.empty()) return "";
  return fmt::format(
      "left out   {}, which one run lacks, whose place is not known, or which have over 2^28 elements: {}\n",
      counted(std::ssize(names), "value"), fmt::join(names, ", "));
}

Json compared_json(const ComparedRow& row) {
  Json one = {{"name", row.name},
              {"ranks", row.ranks},
              {"verdict", verdict_of(row)},
              {"values", row.compared.values},
              {"worst_slack", row.compared.worst_slack},
              {"incomparable", row.compared.incomparable},
              {"wrong", Json::array()}};
  for (const WrongValue& wrong : row.compared.wrong) {
    Json value = {{"step", wrong.key.step}, {"name", wrong.key.name},  {"value", text_of(wrong.key)},
                  {"ranks", Json::array()}, {"elements", wrong.wrong}, {"what", wrong.what}};
    for (const int rank : wrong.ranks) value["ranks"].push_back(rank);
    one["wrong"].push_back(std::move(value));
  }
  return one;
}

}  // namespace verify
