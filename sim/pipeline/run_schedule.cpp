#include "sim/pipeline/run_schedule.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/comm/work_parts.h"
#include "sim/pipeline/schedule_checks.h"

namespace sim {

namespace {

/// Returns the site of a batch, named as Megatron's functions are: "pipeline.send_forward_recv_backward".
Site site_of(const std::vector<Message>& batch) {
  std::string sends;
  std::string recvs;
  for (const Message& message : batch) {
    const char* pass = message.input.pass == Pass::forward ? "_forward" : "_backward";
    (message.is_send ? sends : recvs) += pass;
  }
  std::string name = "pipeline.";
  if (!sends.empty()) name += "send" + sends;
  if (!sends.empty() && !recvs.empty()) name += "_";
  if (!recvs.empty()) name += "recv" + recvs;
  return Site::named(name);
}

class Execution {
 public:
  Execution(Rank& rank, Communicator& pp, const PipelineShape& shape, StageProgram& stage,
            const StageTensor& wire)
      : rank_(rank),
        pp_(pp),
        shape_(shape),
        stage_(stage),
        wire_(wire),
        missing_backward_(static_cast<std::size_t>(shape.chunks()), shape.microbatches()) {}

  int walk(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      if (action.step) compute(*action.step);
      if (!action.messages.empty()) exchange(action.messages);
    }
    return peak_;
  }

 private:
  void compute(const Step& step) {
    const Tensor input = taken(inputs_, step);
    Tensor output;
    begin_pass(rank_, step.pass == Pass::forward ? "forward" : "backward", step.microbatch, step.chunk);
    if (step.pass == Pass::forward) {
      output = stage_.forward(step.microbatch, step.chunk, input);
      peak_ = std::max(peak_, ++live_);
    } else {
      output = stage_.backward(step.microbatch, step.chunk, input);
      --live_;
      int& missing = missing_backward_[static_cast<std::size_t>(step.chunk)];
      if (--missing == 0) stage_.grads_are_complete(step.chunk);
    }
    end_pass(rank_);
    if (!consumer_of(shape_, pp_.rank(), step)) return;
    require_output(step, output);
    outputs_[step] = std::move(output);
  }

  void exchange(const std::vector<Message>& messages) {
    std::vector<PointToPoint> calls;
    for (const Message& message : messages) {
      if (message.is_send) {
        const std::optional<Peer> own = source_of(shape_, message.peer, message.input);
        calls.push_back({Operation::send, taken(outputs_, own->step), message.peer});
      } else {
        const Tensor room = rank_.device.empty(wire_.dtype, wire_.shape);
        inputs_[message.input] = room;
        calls.push_back({Operation::recv, room, message.peer});
      }
    }
    pp_.batch(calls, site_of(messages));
  }

  /// Takes the tensor kept for a step out of `kept`. Returns an empty Tensor() if there is none.
  static Tensor taken(std::map<Step, Tensor>& kept, const Step& step) {
    auto node = kept.extract(step);
    return node.empty() ? Tensor() : std::move(node.mapped());
  }

  void require_output(const Step& step, const Tensor& output) const {
    const bool fits = !output.is_none() && output.dtype() == wire_.dtype && output.shape() == wire_.shape;
    if (fits) return;
    refuse({.code = "stage_output",
            .option = fmt::format("pipeline rank {}, {}", pp_.rank(), text_of(step)),
            .numbers = output.is_none() ? "the stage returned no tensor"
                                        : fmt::format("the stage returned {} {}, the wire is {} {}",
                                                      name_of(output.dtype()), text_of(output.shape()),
                                                      name_of(wire_.dtype), text_of(wire_.shape)),
            .rule = "every stage returns tensors of the shape and dtype of the wire",
            .hint = "the StageTensor that run_schedule() was given"});
  }

  Rank& rank_;
  Communicator& pp_;
  const PipelineShape& shape_;
  StageProgram& stage_;
  const StageTensor& wire_;
  std::vector<int> missing_backward_;  // by chunk, the backward steps that are still to run
  std::map<Step, Tensor> inputs_;      // inputs that have arrived and are not used yet
  std::map<Step, Tensor> outputs_;     // outputs that are not sent yet
  int live_ = 0;
  int peak_ = 0;
};

}  // namespace

int run_schedule(Rank& rank, Communicator& pp, const PipelineShape& shape, const RankSchedule& schedule,
                 StageProgram& stage, const StageTensor& wire) {
  if (pp.size() != shape.pipeline_model_parallel_size) {
    refuse({.code = "schedule_group",
            .option = "--pipeline-model-parallel-size",
            .numbers = fmt::format("{} ranks in the schedule, {} in the group", shape.ranks(), pp.size()),
            .rule = "a schedule runs on a group with as many ranks as it has",
            .hint = fmt::format("--pipeline-model-parallel-size {}", pp.size())});
  }
  require_rank(shape, pp.rank(), schedule);
  return Execution(rank, pp, shape, stage, wire).walk(schedule.actions);
}

}  // namespace sim
