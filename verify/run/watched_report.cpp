#include "verify/run/watched_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/printable_text.h"
#include "verify/output/phrases.h"
#include "verify/output/text_table.h"

namespace verify {

namespace {

constexpr std::int64_t kFewRows = 12;      // that are all shown
constexpr std::size_t kMostDiffering = 8;  // of a longer list

constexpr const char* kStates[] = {"agrees", "differs", "not compared"};  // by WatchState

const char* name_of_state(const WatchRow& row) { return kStates[static_cast<std::size_t>(row.state)]; }

std::string name_of_value(const WatchRow& row) {
  return (row.key.is_gradient ? "gradient of what it " : "") + row.key.role;
}

std::vector<const WatchRow*> rows_in(const ComparedWatch& watch, WatchState state) {
  std::vector<const WatchRow*> rows;
  for (const WatchRow& row : watch.rows)
    if (row.state == state) rows.push_back(&row);
  return rows;
}

std::string table_of(const std::vector<const WatchRow*>& rows) {
  TextTable table({"module", "value", ">step", ">microbatches", "", ""});
  for (const WatchRow* row : rows)
    table.row(sim::printable_text(row->key.module), sim::printable_text(name_of_value(*row)), row->key.step,
              row->microbatches, name_of_state(*row),
              row->state == WatchState::not_compared ? sim::printable_text(row->what) : "");
  return rows.empty() ? "" : table.text("  ");
}

/// Returns a line for each reason why values are not compared.
std::string reasons_of(const std::vector<const WatchRow*>& rows) {
  std::vector<std::pair<const WatchRow*, std::int64_t>> reasons;  // the first row, and how many there are
  for (const WatchRow* row : rows) {
    const auto known =
        std::ranges::find(reasons, row->what, [](const auto& each) { return each.first->what; });
    if (known == reasons.end())
      reasons.emplace_back(row, 1);
    else
      ++known->second;
  }
  std::string text;
  for (const auto& [row, count] : reasons)
    text += fmt::format("  {} not compared, such as what {} {}: {}\n", counted(count, "value"),
                        sim::printable_text(row->key.module), sim::printable_text(row->key.role),
                        sim::printable_text(row->what));
  return text;
}

/// Says what else the first value that differs may mean.
std::string note_on_first(const ComparedWatch& watch, const WatchRow& first) {
  if (first.key.step > 0)
    return "             nothing of step 0 differs: it may follow from what the optimizer has done\n";
  const WatchRow& begin = *std::ranges::find_if(
      watch.rows, [](const WatchRow& row) { return row.state != WatchState::not_compared; });
  if (&begin != &first || first.key.is_gradient || !first.key.role.starts_with("takes")) return "";
  return "             it comes into the first module that is watched: what is before it differs, or its\n"
         "             parts lie elsewhere\n";
}

}  // namespace

std::string watch_text(const std::string& layout, const ComparedWatch& watch) {
  if (watch.rows.empty()) return "";
  const std::vector<const WatchRow*> differing = rows_in(watch, WatchState::differs);
  const auto agreeing = std::ssize(rows_in(watch, WatchState::agrees));
  std::string text = fmt::format("\n{}: {} of {} of watched modules agree\n", layout, agreeing,
                                 counted(std::ssize(watch.rows), "value"));
  if (!differing.empty())
    text += fmt::format("  first      {}\n{}", sim::printable_text(differing.front()->what),
                        note_on_first(watch, *differing.front()));
  if (watch.factor != 1)
    text +=
        fmt::format("  gradients  {} times those of the reference: means over fewer tokens, or a mistake\n",
                    watch.factor);
  if (std::ssize(watch.rows) <= kFewRows) {
    std::vector<const WatchRow*> all;
    for (const WatchRow& row : watch.rows) all.push_back(&row);
    return text + table_of(all);
  }
  const std::size_t shown = std::min(differing.size(), kMostDiffering);
  text += table_of({differing.begin(), differing.begin() + static_cast<std::ptrdiff_t>(shown)});
  if (shown < differing.size()) text += fmt::format("  ... and {} more differ\n", differing.size() - shown);
  return text + reasons_of(rows_in(watch, WatchState::not_compared));
}

std::string unmatched_text(const WatchedValues& reference) {
  std::string text;
  for (const auto& [pattern, nearest] : reference.unmatched)
    text += fmt::format("unmatched  no module is named '{}'{}{}\n", sim::printable_text(pattern),
                        nearest.empty() ? "" : "; names like it: ", sim::printable_text(nearest));
  return text;
}

Json watch_json(const ComparedWatch& watch) {
  Json one = {{"factor", watch.factor}, {"values", Json::array()}};
  for (const WatchRow& row : watch.rows)
    one["values"].push_back({{"step", row.key.step},
                             {"module", row.key.module},
                             {"value", name_of_value(row)},
                             {"state", name_of_state(row)},
                             {"microbatches", row.microbatches},
                             {"what", row.what}});
  return one;
}

Json unmatched_json(const WatchedValues& reference) {
  Json all = Json::array();
  for (const auto& [pattern, nearest] : reference.unmatched)
    all.push_back({{"pattern", pattern}, {"nearest", nearest}});
  return all;
}

}  // namespace verify
