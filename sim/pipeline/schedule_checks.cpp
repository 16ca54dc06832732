#include "sim/pipeline/schedule_checks.h"

#include <fmt/format.h>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "sim/pipeline/timeline.h"

namespace sim {

namespace {

/// Walks the list of one rank, and records which steps have been computed, which inputs have arrived and
/// which outputs have been sent.
class RankCheck {
 public:
  RankCheck(const PipelineShape& shape, int rank, const RankSchedule& schedule)
      : shape_(shape), rank_(rank), schedule_(schedule) {}

  void run() {
    for (const Action& action : schedule_.actions) {
      if (action.step) compute(*action.step);
      for (const Message& message : action.messages) message.is_send ? send(message) : recv(message);
    }
    require_all_steps();
    require_all_messages();
    require_peak();
  }

 private:
  [[noreturn]] void fault(const char* code, std::string numbers, const char* rule) const {
    refuse({.code = code,
            .option = fmt::format("pipeline schedule, rank {}", rank_),
            .numbers = std::move(numbers),
            .rule = rule,
            .hint = "fix the function that writes the schedule"});
  }

  bool is_of_shape(const Step& step) const {
    const bool wanted_pass = step.pass == Pass::forward || !shape_.forward_only;
    return wanted_pass && step.microbatch >= 0 && step.microbatch < shape_.microbatches() &&
           step.chunk >= 0 && step.chunk < shape_.chunks();
  }

  void compute(const Step& step) {
    if (!is_of_shape(step))
      fault("schedule_steps", text_of(step) + " is not a step of this pipeline",
            "microbatches, chunks and passes of a step are those of the shape");
    if (!computed_.insert(step).second)
      fault("schedule_steps", text_of(step) + " occurs twice", "every step occurs once");
    const Step forward = {Pass::forward, step.microbatch, step.chunk};
    if (step.pass == Pass::backward && !computed_.contains(forward))
      fault("schedule_steps", text_of(step) + " runs before its forward step", "backward runs after forward");
    if (source_of(shape_, rank_, step) && !arrived_.contains(step))
      fault("schedule_order", text_of(step) + " runs before its input has arrived",
            "a step runs after its input has arrived");
  }

  void send(const Message& message) {
    const bool has_peer = message.peer >= 0 && message.peer < shape_.ranks() && is_of_shape(message.input);
    const std::optional<Peer> source =
        has_peer ? source_of(shape_, message.peer, message.input) : std::nullopt;
    if (!source || source->rank != rank_)
      fault("schedule_route", text_of(message), "an output goes to the next stage of its pass");
    if (!computed_.contains(source->step))
      fault("schedule_order", text_of(message) + " comes before its step", "a send comes after its step");
    if (!left_.insert(source->step).second)
      fault("schedule_order", text_of(message) + " occurs twice", "every output is sent once");
  }

  void recv(const Message& message) {
    const std::optional<Peer> source =
        is_of_shape(message.input) ? source_of(shape_, rank_, message.input) : std::nullopt;
    if (!source || source->rank != message.peer)
      fault("schedule_route", text_of(message), "an input comes from the stage before in its pass");
    if (!arrived_.insert(message.input).second)
      fault("schedule_order", text_of(message) + " occurs twice", "every input is received once");
  }

  void require_all_steps() const {
    const std::size_t passes = shape_.forward_only ? 1 : 2;
    const std::size_t wanted = passes * static_cast<std::size_t>(shape_.forward_steps());
    if (computed_.size() == wanted) return;
    fault("schedule_steps", fmt::format("the list has {} of {} steps", computed_.size(), wanted),
          "every microbatch runs once forward and once backward through every chunk");
  }

  void require_all_messages() const {
    for (const Step& step : computed_) {
      if (consumer_of(shape_, rank_, step) && !left_.contains(step))
        fault("schedule_order", fmt::format("the output of {} is not sent", text_of(step)),
              "every output is sent once");
    }
    for (const Step& step : arrived_) {
      if (!computed_.contains(step))
        fault("schedule_order", fmt::format("the input of {} is not used", text_of(step)),
              "every input is received once");
    }
  }

  void require_peak() const {
    const int counted = counted_peak(schedule_);
    if (counted == schedule_.peak_live) return;
    fault("schedule_peak",
          fmt::format("{} microbatches are in flight at once, and {} by the closed form", counted,
                      schedule_.peak_live),
          "peak_live of a schedule is the number that its steps give");
  }

  const PipelineShape& shape_;
  int rank_;
  const RankSchedule& schedule_;
  std::set<Step> computed_;
  std::set<Step> arrived_;  // steps whose input has arrived
  std::set<Step> left_;     // steps whose output has been sent
};

}  // namespace

void require_rank(const PipelineShape& shape, int rank, const RankSchedule& schedule) {
  check(shape, rank);
  RankCheck(shape, rank, schedule).run();
}

void check(const PipelineSchedule& schedule) {
  require_lists(schedule);
  for (int rank = 0; rank < schedule.shape.ranks(); ++rank)
    require_rank(schedule.shape, rank, schedule.ranks[static_cast<std::size_t>(rank)]);
  timeline(schedule);
}

}  // namespace sim
