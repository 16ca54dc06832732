#include "sim/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <numeric>
#include <span>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/comm/blocks.h"
#include "sim/comm/group_refusals.h"
#include "sim/comm/reduction_order.h"
#include "sim/comm/split_parts.h"
#include "sim/comm/waiting.h"
#include "sim/mpi/letter.h"
#include "sim/mpi/letter_agreement.h"
#include "sim/tensor/device.h"
#include "sim/tensor/running_device.h"

namespace sim {

namespace {

// ---- the data of one call of one process: what it sends to each other member, and how it computes its
// output from what they sent
//
// Shapes  payloads are bytes as elements lie in memory. `letters` has one element for each place of the
//         group; the payload of this rank's own letter is empty.
// Exact   the results are those of sim/world/transfer.h.

/// Returns the rows of a tensor that go to `place`, or that come from it.
Tensor rows_of(const Tensor& tensor, const std::vector<std::int64_t>& rows, int place) {
  const auto end = rows.begin() + place;
  const std::int64_t before = std::accumulate(rows.begin(), end, std::int64_t{0});
  return tensor.rows(before, before + *end);
}

Bytes bytes_of(const Tensor& tensor) {
  Bytes bytes(static_cast<std::size_t>(tensor.bytes()));
  if (!bytes.empty()) tensor.device().to_host(tensor, bytes);
  return bytes;
}

void write(const Bytes& payload, Tensor to) {
  SIM_CHECK(static_cast<std::int64_t>(payload.size()) == to.bytes());
  if (!payload.empty()) to.device().from_host(payload, to);
}

/// Copies the part of this rank's input that goes to its own output.
void keep_own(const Call& call, int place) {
  switch (call.operation) {
    case Operation::all_gather:
    case Operation::gather:
      return copy_elements(call.input, block(call.output, call.count, place));
    case Operation::scatter:
      return copy_elements(block(call.input, call.count, place), call.output);
    case Operation::all_to_all:
      return copy_elements(block(call.input, call.count, place), block(call.output, call.count, place));
    case Operation::all_to_all_uneven:
      return copy_elements(rows_of(call.input, call.rare->send_rows, place),
                           rows_of(call.output, call.rare->receive_rows, place));
    default:
      return;
  }
}

/// Folds the members' inputs into the output. `own` is the part of this rank's input that is folded.
void fold_members(const Call& call, const ProcessGroup& group, int place, const ReductionOrder& order,
                  const std::vector<Letter>& letters, int finisher, const Tensor& own) {
  Device& device = call.input->device();
  std::vector<Tensor> by_place(letters.size());
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (static_cast<int>(i) == place) {
      by_place[i] = own;
      continue;
    }
    by_place[i] = device.empty(call.dtype, {own.count()});
    write(letters[i].payload, by_place[i]);
  }
  const FoldPlan plan = fold_plan(order, call, group, finisher);
  std::vector<Tensor> inputs = by_place;
  for (std::size_t i = 0; i < plan.base.size(); ++i)
    inputs[i] = by_place[static_cast<std::size_t>(plan.base[i])];
  if (own.count() > 0)
    device.fold(call.reduce_op, pointers_to(inputs), plan.segments, pointers_to({&*call.output, 1}));
}

void require_rows(const Call& call, const ProcessGroup& group, int place, int from, const Bytes& payload) {
  const std::int64_t row_bytes = call.output->shape().row_count() * size_of(call.dtype);
  const std::int64_t expected = call.rare->receive_rows[static_cast<std::size_t>(from)] * row_bytes;
  if (std::ssize(payload) == expected) return;
  refuse({.code = "split_size_mismatch",
          .option = fmt::format("{} in {}", text_of(call.site), text_of(group)),
          .numbers = fmt::format("rank {} sends {} bytes to rank {}, which expects {}", group.rank_at(from),
                                 payload.size(), group.rank_at(place), expected),
          .rule = "a member expects as many rows from another as that member sends",
          .hint = "exchange the split sizes with all_to_all first"});
}

/// Writes what one other member sent to its place in the output, if this operation has one.
void take_from(const Call& call, const ProcessGroup& group, int place, int from, const Bytes& payload) {
  switch (call.operation) {
    case Operation::all_gather:
    case Operation::all_to_all:
      return write(payload, block(call.output, call.count, from));
    case Operation::gather:
      return place == call.root ? write(payload, block(call.output, call.count, from)) : void();
    case Operation::broadcast:
    case Operation::scatter:
      return from == call.root ? write(payload, call.output) : void();
    case Operation::all_to_all_uneven:
      require_rows(call, group, place, from, payload);
      return write(payload, rows_of(call.output, call.rare->receive_rows, from));
    case Operation::recv:
      return write(payload, call.output);
    default:
      return;
  }
}

/// Returns what a member that has an input sends to the one at `to`.
Bytes given_to(const Call& call, int to) {
  switch (call.operation) {
    case Operation::all_reduce:
    case Operation::all_gather:
    case Operation::send:
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::gather:
      return bytes_of(call.input);
    case Operation::scatter:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
      return bytes_of(block(call.input, call.count, to));
    case Operation::all_to_all_uneven:
      return bytes_of(rows_of(call.input, call.rare->send_rows, to));
    case Operation::recv:
    case Operation::barrier:
    case Operation::split:
    case Operation::new_group:
      break;
  }
  return {};
}

/// Returns the bytes that the member at `place` sends to the one at `to`; empty if it sends nothing.
Bytes payload_for(const Call& call, int members, int place, int to) {
  SIM_CHECK(to != place && to < members);
  const bool goes_to_root = call.operation == Operation::reduce || call.operation == Operation::gather;
  if (!gives(call.operation, place == call.root) || (goes_to_root && to != call.root)) return {};
  return given_to(call, to);
}

/// Writes the output of a collective or of a recv. The letter of a recv is at its peer's place.
void take_in(const Call& call, const ProcessGroup& group, int place, const ReductionOrder& order,
             const std::vector<Letter>& letters) {
  switch (call.operation) {
    case Operation::all_reduce:
      return fold_members(call, group, place, order, letters, 0, call.input->flat());
    case Operation::reduce:
      if (place == call.root) fold_members(call, group, place, order, letters, call.root, call.input->flat());
      return;
    case Operation::reduce_scatter:
      return fold_members(call, group, place, order, letters, place, block(call.input, call.count, place));
    default:
      break;
  }
  const bool is_root = has_root(call.operation) && place == call.root;
  if (gives(call.operation, is_root) && gets(call.operation, is_root)) keep_own(call, place);
  for (int from = 0; from < group.size(); ++from) {
    const bool is_asked = call.operation != Operation::recv || from == call.peer;
    if (from != place && is_asked && gets(call.operation, is_root))
      take_from(call, group, place, from, letters[static_cast<std::size_t>(from)].payload);
  }
}

// ---- the communicator

std::vector<int> ranks_of_grid(const Layout& layout) {
  std::vector<int> ranks;
  for (int i = 0; i < layout.grid_size; ++i) ranks.push_back(layout.first_rank + i);
  return ranks;
}

std::string text_of_waiting(const Call& call, const ProcessGroup& group, int rank) {
  return fmt::format("rank {} in call {} of {}, {} {}", rank, call.sequence, text_of(group),
                     name_of(call.operation), text_of(call.site));
}

/// A started call that is an exchange of letters. Its own letters leave in send(); wait() takes the others'.
class SentCall : public Pending {
 public:
  SentCall(ProcessRun& run, const ProcessGroup& group, Call&& call)
      : run_(run),
        group_(group),
        place_(group.place_of(run.rank)),
        call_(std::move(call)),
        device_(run.device.get()) {}

  void send() {
    const bool is_message = is_point_to_point(call_.operation);
    if (is_message && is_unasked()) return;
    Letter letter = letter_of(call_, group_, run_.rank, run_.number);
    for (int to = 0; to < group_.size(); ++to) {
      if (to == place_ || (is_message && to != call_.peer)) continue;
      letter.payload = payload_for(call_, group_.size(), place_, to);
      run_.mailbox.send(group_.rank_at(to), letter);
    }
  }

  void wait() override {
    if (is_done_) return;
    require_waits_for_own(call_, device_);
    take_in(call_, group_, place_, run_.reduction_order, answers());
    is_done_ = true;
  }

  /// Waits for the letters of the other members and checks them. Returns one letter for each place of the
  /// group, with this rank's own letter at its own place.
  std::vector<Letter> answers() {
    const Letter own = letter_of(call_, group_, run_.rank, run_.number);
    std::vector<Letter> by_place(static_cast<std::size_t>(group_.size()), own);
    std::vector<int> places;
    std::vector<LetterKey> keys;
    for (int from = 0; from < group_.size(); ++from) {
      if (!waits_for(from)) continue;
      places.push_back(from);
      keys.push_back({group_.rank_at(from), run_.number, own.key.group, answer_kind(), call_.sequence});
    }
    std::vector<Letter> letters = run_.mailbox.take(keys, text_of_waiting(call_, group_, run_.rank));
    for (const Letter& letter : letters) require_agreement(own, letter);
    for (std::size_t i = 0; i < letters.size(); ++i)
      by_place[static_cast<std::size_t>(places[i])] = std::move(letters[i]);
    return by_place;
  }

  const Call& call() const { return call_; }

 private:
  /// Whether a send of this tensor completes without waiting for its recv. Both sides compute the same
  /// answer.
  bool is_eager(const Tensor& tensor) const {
    return run_.eager_bytes > 0 && tensor.bytes() <= run_.eager_bytes;
  }
  bool is_unasked() const { return call_.operation == Operation::recv && is_eager(call_.output); }
  LetterKind answer_kind() const {
    if (call_.operation == Operation::send) return LetterKind::recv;
    return call_.operation == Operation::recv ? LetterKind::send : LetterKind::collective;
  }
  bool waits_for(int from) const {
    if (!is_point_to_point(call_.operation)) return from != place_;
    return from == call_.peer && !(call_.operation == Operation::send && is_eager(call_.input));
  }

  ProcessRun& run_;
  const ProcessGroup& group_;
  int place_;
  Call call_;
  const Device* device_;
  bool is_done_ = false;
};

/// Makes this rank's group of a split. The index of the group is that of its color among all colors, so every
/// member computes the same index.
std::unique_ptr<MpiCommunicator> split_group(ProcessRun& run, const ProcessGroup& parent, const Call& call,
                                             const std::vector<Letter>& letters) {
  if (call.rare->color < 0) return nullptr;
  std::vector<ColorAndKey> by_place;
  for (const Letter& letter : letters) by_place.push_back({letter.color, letter.split_key});
  const std::vector<SplitPart> parts = split_parts(by_place);
  const int index = index_of(parts, call.rare->color);
  std::vector<int> members;
  for (const int place : parts[static_cast<std::size_t>(index)].places)
    members.push_back(parent.rank_at(place));
  return std::make_unique<MpiCommunicator>(
      run, run.add_group(split_name(parent, call.sequence), index, std::move(members)));
}

}  // namespace

const ProcessGroup& ProcessRun::add_group(std::string kind, int index, std::vector<int> members) {
  groups.push_back(std::make_shared<const ProcessGroup>(
      ProcessGroup{std::move(kind), index, std::move(members), nodes.gpus_per_node}));
  return *groups.back();
}

MpiCommunicator::MpiCommunicator(ProcessRun& run, const ProcessGroup& group)
    : Communicator(group, group.place_of(run.rank), *run.device, run.recorder), run_(run) {}

std::unique_ptr<Pending> MpiCommunicator::do_call(Call&& call) {
  auto sent = std::make_unique<SentCall>(run_, group(), std::move(call));
  sent->send();
  return sent;
}

std::unique_ptr<Communicator> MpiCommunicator::do_split(Call&& call) {
  SentCall sent(run_, group(), std::move(call));
  sent.send();
  return split_group(run_, group(), sent.call(), sent.answers());
}

std::unique_ptr<MpiCommunicator> MpiCommunicator::new_group(std::string name, const std::vector<int>& members,
                                                            Site site) {
  Call call(Operation::new_group, site);
  call.rare = RareArguments{.name = std::move(name), .members = members};
  const std::size_t record = record_call(call);
  SentCall sent(run_, group(), std::move(call));
  sent.send();
  sent.wait();
  recorder().set_waited(record);
  if (std::find(members.begin(), members.end(), run_.rank) == members.end()) return nullptr;
  return std::make_unique<MpiCommunicator>(
      run_, run_.add_group(sent.call().rare->name, static_cast<int>(sent.call().sequence), members));
}

MpiGroups::MpiGroups(ProcessRun& run)
    : run_(run), world_(run, run.add_group("world", 0, ranks_of_grid(run.layout))) {}

Communicator* MpiGroups::find(std::string_view kind) {
  if (kind == "world") return &world_;
  const auto known = by_kind_.find(kind);
  if (known != by_kind_.end()) return known->second.get();
  const GroupKind* of_layout = run_.layout.find(kind);
  const auto place = of_layout == nullptr ? std::nullopt : of_layout->place_of(run_.rank);
  std::unique_ptr<MpiCommunicator> made;
  if (place) {
    made = std::make_unique<MpiCommunicator>(
        run_, run_.add_group(of_layout->name(), place->group, of_layout->members(place->group)));
  }
  return by_kind_.emplace(std::string(kind), std::move(made)).first->second.get();
}

Communicator& MpiGroups::get(std::string_view kind) {
  Communicator* found = find(kind);
  if (found != nullptr) return *found;
  refuse_no_group(run_.layout, run_.rank, kind);
}

Communicator* MpiGroups::new_group(std::string name, const std::vector<int>& members, Site site) {
  const std::vector<int>& ranks = world_.group().members;
  require_new_group(
      run_.layout, run_.rank, name, members, world_.size(),
      [&](int member) { return std::find(ranks.begin(), ranks.end(), member) != ranks.end(); }, site);
  std::unique_ptr<MpiCommunicator> made = world_.new_group(std::move(name), members, site);
  if (made == nullptr) return nullptr;
  return made_.emplace_back(std::move(made)).get();
}

}  // namespace sim
