#include "verify/full_size/microbatch_fold.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "verify/cases/gpt_calls.h"
#include "verify/checks/pipeline_schedule.h"
#include "verify/full_size/full_size_training.h"
#include "verify/output/refusal_table.h"
#include "verify/requests/requests.h"

namespace verify {

namespace {

using sim::LedgerRow;

std::tuple<std::string, std::string, sim::Operation, sim::DType> key_of(const LedgerRow& row) {
  return {row.kind, row.site, row.operation, row.dtype};
}

LedgerRow times(LedgerRow row, std::int64_t factor) {
  row.calls *= factor;
  row.elements *= factor;
  row.bytes_inside *= factor;
  row.bytes_across *= factor;
  row.most_bytes *= factor;
  return row;
}

/// The messages of a pipeline rank that are alike.
struct MessageKind {
  std::string site;
  bool is_send = false;
  int peer = 0;
  auto operator<=>(const MessageKind&) const = default;
};

std::map<MessageKind, std::int64_t> messages_of(const ScheduleRequest& schedule, int pipeline_rank) {
  std::map<MessageKind, std::int64_t> messages;
  for (const sim::Action& action : schedule.schedule.function(schedule.shape, pipeline_rank).actions) {
    if (action.messages.empty()) continue;
    const std::string site = site_of_messages(action.messages);
    for (const sim::Message& message : action.messages) ++messages[{site, message.is_send, message.peer}];
  }
  return messages;
}

/// Adds the messages of all ranks to the rows of a ledger.
class MessageRows {
 public:
  explicit MessageRows(const ScenarioRequest& request)
      : request_(request), model_(full_size_training(request, 0).model) {
    elements_ = model_.tokens() * model_.hidden_size / (model_.sequence_parallel ? request.layout.tp : 1);
  }

  std::vector<LedgerRow> rows() {
    const sim::Layout& layout = request_.layout;
    if (layout.pp == 1) return {};
    std::vector<std::map<MessageKind, std::int64_t>> messages;
    for (int stage = 0; stage < layout.pp; ++stage)
      messages.push_back(messages_of(*request_.schedule, stage));
    layout.find("pp")->for_each_group([&](int, std::span<const int> members) {
      const sim::ProcessGroup group{"pp", 0, {members.begin(), members.end()}, request_.nodes.gpus_per_node};
      for (int place = 0; place < group.size(); ++place)
        add_rank(group, place, messages[static_cast<std::size_t>(place)]);
    });
    std::vector<LedgerRow> all;
    for (auto& [key, row] : rows_) all.push_back(std::move(row));
    return all;
  }

 private:
  void add_rank(const sim::ProcessGroup& group, int place,
                const std::map<MessageKind, std::int64_t>& messages) {
    std::map<LedgerRow*, std::int64_t> bytes_of_row;  // every entry is read, in any order
    for (const auto& [message, count] : messages) {
      const LedgerRow key{.kind = "pp",
                          .site = message.site,
                          .operation = message.is_send ? sim::Operation::send : sim::Operation::recv,
                          .dtype = model_.dtype};
      LedgerRow& row = rows_.try_emplace(key_of(key), key).first->second;
      const std::int64_t bytes = message.is_send ? count * elements_ * sim::size_of(model_.dtype) : 0;
      row.calls += count;
      row.elements += count * elements_;
      (group.on_one_node(place, message.peer) ? row.bytes_inside : row.bytes_across) += bytes;
      bytes_of_row[&row] += bytes;
    }
    for (const auto& [row, bytes] : bytes_of_row) {
      ++row->ranks;
      row->most_bytes = std::max(row->most_bytes, bytes);
    }
  }

  const ScenarioRequest& request_;
  sim::GptConfig model_;
  std::int64_t elements_ = 0;
  std::map<std::tuple<std::string, std::string, sim::Operation, sim::DType>, LedgerRow> rows_;
};

[[noreturn]] void refuse_microbatch_fold(const LedgerRow& row, std::int64_t calls) {
  refuse_by("microbatch_fold", row.site, row.calls, sim::name_of(row.operation), row.kind, calls);
}

}  // namespace

std::int64_t microbatches_of_a_period(const ScenarioRequest& request) {
  const std::int64_t all = microbatches_of_batch(request.batch, request.layout.dp);
  if (!request.schedule) return request.layout.pp == 1 && all > 2 ? 1 : 0;
  const sim::PipelineShape& shape = request.schedule->shape;
  const std::int64_t period = shape.is_interleaved() ? shape.group_size() : 1;
  return all > 2 * period && all % period == 0 && steps_of(shape) <= kMostCountedSteps ? period : 0;
}

ScenarioRequest with_microbatches(ScenarioRequest request, std::int64_t microbatches) {
  request.batch.num_microbatches = microbatches;
  request.batch.global_batch_size = microbatches * request.layout.dp * request.batch.micro_batch_size;
  if (request.schedule) request.schedule->shape.num_microbatches = microbatches;
  return request;
}

std::vector<LedgerRow> ledger_of_microbatches(const ScenarioRequest& request,
                                              const std::vector<LedgerRow>& one,
                                              const std::vector<LedgerRow>& two) {
  const std::int64_t periods =
      microbatches_of_batch(request.batch, request.layout.dp) / microbatches_of_a_period(request);
  std::vector<LedgerRow> ledger = MessageRows(request).rows();
  const auto is_message = [](const LedgerRow& row) {  // between stages; those of attention are over cp
    return row.kind == "pp" && sim::is_point_to_point(row.operation);
  };
  auto of_two = two.begin();
  const auto next_of_two = [&] { of_two = std::find_if_not(of_two, two.end(), is_message); };
  for (const LedgerRow& row : one) {
    if (is_message(row)) continue;
    next_of_two();
    if (of_two == two.end()) refuse_microbatch_fold(row, 0);
    const bool doubles = *of_two == times(row, 2);
    if (!doubles && *of_two != row) refuse_microbatch_fold(row, of_two->calls);
    ledger.push_back(doubles ? times(row, periods) : row);
    ++of_two;
  }
  next_of_two();
  if (of_two != two.end()) refuse_microbatch_fold(times(*of_two, 0), of_two->calls);
  std::sort(ledger.begin(), ledger.end(),
            [](const LedgerRow& a, const LedgerRow& b) { return key_of(a) < key_of(b); });
  return ledger;
}

}  // namespace verify
