#include <algorithm>
#include <cstddef>
#include <fmt/color.h>
#include <fmt/format.h>
#include <numeric>

#include "verify/output/phrases.h"
#include "verify/output/text_table.h"
#include "verify/views/schedule_view.h"

namespace verify {

namespace {

int rows_shown(const sim::PipelineSchedule& schedule) { return std::min(schedule.shape.ranks(), kMostRows); }

std::string rows_cut(const sim::PipelineSchedule& schedule) {
  const int cut = schedule.shape.ranks() - rows_shown(schedule);
  return cut == 0 ? "" : fmt::format("and {}\n", counted(cut, "more rank"));
}

std::int64_t messages_of(const sim::RankSchedule& rank, bool is_send) {
  std::int64_t count = 0;
  for (const sim::Action& action : rank.actions) {
    count += std::ranges::count_if(action.messages,
                                   [&](const sim::Message& message) { return message.is_send == is_send; });
  }
  return count;
}

std::string label_of(const sim::PipelineShape& shape, const sim::Step& step) {
  return fmt::format("{}{}{}", step.pass == sim::Pass::forward ? 'F' : 'B', step.microbatch,
                     shape.is_interleaved() ? chunk_name(step.chunk) : "");
}

/// Returns one row of the chart up to the time `end`. A unit of time is a cell of `width` characters.
std::string row_of(const sim::PipelineShape& shape, const std::vector<sim::TimedStep>& steps,
                   std::size_t width, std::int64_t end, bool colour) {
  std::string row;
  std::int64_t now = 0;
  const std::string idle = "." + std::string(width - 1, ' ');
  for (const sim::TimedStep& timed : steps) {
    if (timed.begin >= end) break;
    for (; now < timed.begin; ++now) row += idle;
    const auto room = static_cast<std::size_t>(std::min(timed.end, end) - now) * width - 1;
    std::string label = label_of(shape, timed.step);
    label.resize(room, label.size() < width ? (room < width ? ' ' : '-') : '-');
    const auto paint = timed.step.pass == sim::Pass::forward ? fmt::color::steel_blue : fmt::color::sea_green;
    row += colour ? fmt::format(fmt::fg(paint), "{}", label) : label;
    row += ' ';
    now = std::min(timed.end, end);
  }
  for (; now < end; ++now) row += idle;
  row.erase(row.find_last_not_of(' ') + 1);
  return row;
}

std::string ruler(std::size_t width, std::int64_t end) {
  constexpr std::int64_t kMarkEvery = 5;
  std::string marks;
  for (std::int64_t time = 0; time < end; time += kMarkEvery) {
    marks.resize(static_cast<std::size_t>(time) * width, ' ');
    marks += fmt::format("{}", time);
  }
  return marks;
}

}  // namespace

std::string chunk_name(int chunk) {
  constexpr int kLetters = 26;
  return chunk < kLetters ? std::string(1, static_cast<char>('a' + chunk)) : fmt::format(":{}", chunk);
}

std::string bubble_share(const sim::Timeline& timeline) {
  const std::int64_t common = std::gcd(timeline.bubble(), timeline.work);
  if (timeline.bubble() % timeline.work == 0) return fmt::format("{}", timeline.bubble() / timeline.work);
  return fmt::format("{}/{}", timeline.bubble() / common, timeline.work / common);
}

std::string schedule_table(const sim::PipelineSchedule& schedule) {
  TextTable table({">rank", ">warm-up", ">F and B in turn", ">cool-down", ">peak live", ">sends", ">recvs"});
  for (int rank = 0; rank < rows_shown(schedule); ++rank) {
    const sim::RankSchedule& own = schedule.ranks[static_cast<std::size_t>(rank)];
    const int after = schedule.shape.forward_only ? 0 : own.warmup;
    table.row(rank, own.warmup, schedule.shape.forward_steps() - own.warmup, after, own.peak_live,
              messages_of(own, true), messages_of(own, false));
  }
  return table.text() + rows_cut(schedule);
}

std::string schedule_gantt(const sim::PipelineSchedule& schedule, const sim::Timeline& timeline, int columns,
                           bool colour) {
  const sim::PipelineShape& shape = schedule.shape;
  const sim::Step longest = {sim::Pass::forward, shape.microbatches() - 1, shape.chunks() - 1};
  const std::size_t width = label_of(shape, longest).size() + 1;
  const std::size_t name_width = fmt::format("rank {}", rows_shown(schedule) - 1).size() + 2;
  const std::int64_t fitting = (std::max<std::int64_t>(columns, 0) - static_cast<std::int64_t>(name_width)) /
                               static_cast<std::int64_t>(width);
  const std::int64_t end = std::clamp<std::int64_t>(fitting, 1, timeline.length);
  std::string text = fmt::format("{:<{}}{}\n", "time", name_width, ruler(width, end));
  for (int rank = 0; rank < rows_shown(schedule); ++rank) {
    text += fmt::format("{:<{}}{}\n", fmt::format("rank {}", rank), name_width,
                        row_of(shape, timeline.ranks[static_cast<std::size_t>(rank)], width, end, colour));
  }
  text += rows_cut(schedule);
  if (end < timeline.length) {
    text +=
        fmt::format("cut off at time {} of {}: a wider terminal shows more, and --svg FILE shows all of it\n",
                    end, timeline.length);
  }
  return text;
}

}  // namespace verify
