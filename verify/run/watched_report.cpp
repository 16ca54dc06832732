#include "verify/run/watched_report.h"

#include <algorithm>
#include <fmt/format.h>

#include "sim/base/printable_text.h"
#include "verify/output/phrases.h"
#include "verify/output/text_table.h"

namespace verify {

namespace {

constexpr std::int64_t kFewRows = 12;  // that are all shown

constexpr const char* kStates[] = {"agrees", "differs", "not compared"};  // by WatchState

const char* name_of_state(const WatchRow& row) { return kStates[static_cast<std::size_t>(row.state)]; }

std::string name_of_value(const WatchRow& row) {
  return (row.key.is_gradient ? "gradient of what it " : "") + row.key.role;
}

}  // namespace

std::string watch_text(const std::string& layout, const ComparedWatch& watch) {
  if (watch.rows.empty()) return "";
  TextTable table({"module", "value", ">step", ">microbatches", "", ""});
  const WatchRow* first = nullptr;
  std::int64_t agreeing = 0;
  for (const WatchRow& row : watch.rows) {
    const bool agrees = row.state == WatchState::agrees, differs = row.state == WatchState::differs;
    agreeing += agrees ? 1 : 0;
    if (differs && first == nullptr) first = &row;
    if (!agrees || std::ssize(watch.rows) <= kFewRows)
      table.row(sim::printable_text(row.key.module), sim::printable_text(name_of_value(row)), row.key.step,
                row.microbatches, name_of_state(row), differs ? "" : sim::printable_text(row.what));
  }
  std::string text = fmt::format("\n{}: {} of {} of watched modules agree\n", layout, agreeing,
                                 counted(std::ssize(watch.rows), "value"));
  if (agreeing < std::ssize(watch.rows) || std::ssize(watch.rows) <= kFewRows) text += table.text("  ");
  if (watch.factor != 1)
    text +=
        fmt::format("  gradients here are {} times those of the reference, as of means over fewer tokens\n",
                    watch.factor);
  if (first != nullptr) text += fmt::format("  first      {}\n", sim::printable_text(first->what));
  return text;
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
