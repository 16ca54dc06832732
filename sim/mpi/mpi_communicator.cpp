#include "sim/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/comm/group_refusals.h"
#include "sim/comm/split_parts.h"
#include "sim/comm/waiting.h"
#include "sim/mpi/exchange.h"
#include "sim/mpi/letter_agreement.h"
#include "sim/tensor/device.h"
#include "sim/tensor/running_device.h"

namespace sim {

namespace {

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
