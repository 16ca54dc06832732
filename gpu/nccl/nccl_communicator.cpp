#include "gpu/nccl/nccl_communicator.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <utility>

#include "gpu/nccl/nccl_splits.h"
#include "sim/base/check.h"
#include "sim/base/content_hash.h"
#include "sim/base/error.h"
#include "sim/comm/group_refusals.h"
#include "sim/comm/split_parts.h"
#include "sim/comm/waiting.h"
#include "sim/tensor/device.h"

namespace gpu {

namespace {

using sim::Call;
using sim::Operation;
using sim::ProcessGroup;
using sim::ReduceOp;
using Table = std::vector<std::vector<std::int32_t>>;  // by place

/// A call that has been issued to NCCL, or is held back until the rank waits.
class PostedCall : public sim::Pending {
 public:
  PostedCall(NcclRun& run, NcclChannel& channel, Call&& call)
      : channel_(channel), call_(std::move(call)), device_(run.device.get()), flight_(channel.put(call_)) {}

  void wait() override {
    if (is_done_) return;
    sim::require_waits_for_own(call_, device_);
    if (flight_ != nullptr) channel_.wait_for(*flight_, [this] { return channel_.text(call_); });
    const bool averages = has_reduce_op(call_.operation) && call_.reduce_op == ReduceOp::average;
    if (averages && !call_.output->is_none() && call_.output->count() > 0) {
      sim::Tensor output = call_.output;
      device_->scale(output, {1, channel_.group().size()}, output);
    }
    is_done_ = true;
  }

 private:
  NcclChannel& channel_;
  Call call_;
  sim::Device* device_;
  std::shared_ptr<NcclFlight> flight_;
  bool is_done_ = false;
};

/// Returns two words of a hash of a group's name and members, by which ranks see whether they mean the same
/// group.
std::vector<std::int32_t> digest(const std::string& name, const std::vector<int>& members) {
  sim::ContentHash hash;
  hash.add(std::string_view(name));
  for (const int member : members) hash.add(static_cast<std::uint64_t>(member));
  const std::uint64_t value = hash.value();
  return {static_cast<std::int32_t>(static_cast<std::uint32_t>(value)),
          static_cast<std::int32_t>(static_cast<std::uint32_t>(value >> 32))};
}

}  // namespace

const ProcessGroup& NcclRun::add_group(std::string kind, int index, std::vector<int> members) {
  groups.push_back(std::make_shared<const ProcessGroup>(
      ProcessGroup{std::move(kind), index, std::move(members), nodes.gpus_per_node}));
  return *groups.back();
}

NcclChannel& NcclRun::add_channel(const ProcessGroup& group, std::unique_ptr<NcclLink> link) {
  SIM_CHECK((link != nullptr) == (group.size() > 1));
  channels.push_back(std::make_unique<NcclChannel>(traffic, group, group.place_of(rank), std::move(link)));
  channels.back()->connect();
  return *channels.back();
}

void NcclRun::meet_at_end() {
  NcclChannel& world = *channels.front();
  world.exchange({0}, [&] { return world.text("the end of the program"); });
}

void NcclRun::close() {
  while (!channels.empty()) {
    channels.back()->close();
    channels.pop_back();
  }
}

NcclCommunicator::NcclCommunicator(NcclRun& run, NcclChannel& channel)
    : Communicator(channel.group(), channel.place(), *run.device, run.recorder),
      run_(run),
      channel_(channel) {}

std::unique_ptr<sim::Pending> NcclCommunicator::do_call(Call&& call) {
  return std::make_unique<PostedCall>(run_, channel_, std::move(call));
}

std::unique_ptr<sim::Communicator> NcclCommunicator::do_split(Call&& call) {
  const Words what = [&] { return channel_.text(call); };
  std::vector<sim::ColorAndKey> by_place;
  for (const auto& row : channel_.exchange({call.rare->color, call.rare->key}, what))
    by_place.push_back({row[0], row[1]});
  const std::vector<sim::SplitPart> parts = sim::split_parts(by_place);
  const int index = sim::index_of(parts, call.rare->color);
  std::vector<int> members;
  if (call.rare->color >= 0) {
    for (const int place : parts[static_cast<std::size_t>(index)].places)
      members.push_back(group().rank_at(place));
  }
  const bool is_alone = members.size() < 2;
  const bool all_alone =
      std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part.places.size() == 1; });
  std::unique_ptr<NcclLink> link;
  if (!all_alone) {
    const auto key = is_alone ? 0 : std::find(members.begin(), members.end(), run_.rank) - members.begin();
    link = channel_.split(is_alone ? kNoColor : index, static_cast<int>(key), what);
  }
  if (call.rare->color < 0) return nullptr;
  const ProcessGroup& part =
      run_.add_group(sim::split_name(group(), call.sequence), index, std::move(members));
  return std::make_unique<NcclCommunicator>(run_, run_.add_channel(part, std::move(link)));
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::new_group(std::string name,
                                                              const std::vector<int>& members,
                                                              sim::Site site) {
  Call call(Operation::new_group, site);
  call.rare = sim::RareArguments{.name = std::move(name), .members = members};
  const std::size_t record = record_call(call);
  const Words what = [&] { return channel_.text(call); };
  const Table table = channel_.exchange(digest(call.rare->name, members), what);
  for (std::size_t place = 0; place < table.size(); ++place) {
    if (table[place] == table[static_cast<std::size_t>(rank())]) continue;
    sim::refuse(
        {.code = "group_order_mismatch",
         .option = describe(call),
         .numbers = fmt::format("this rank creates '{}' of {}, but rank {} another group", call.rare->name,
                                sim::text_of_ranks(members), group().rank_at(static_cast<int>(place))),
         .rule = "every rank creates the same groups in the same order",
         .hint = "create all groups in one loop, which is the same on every rank"});
  }
  const auto own = std::find(members.begin(), members.end(), run_.rank);
  std::unique_ptr<NcclLink> link;
  if (members.size() > 1) {
    link = own == members.end() ? channel_.split(kNoColor, 0, what)
                                : channel_.split(0, static_cast<int>(own - members.begin()), what);
  }
  recorder().set_waited(record);
  if (own == members.end()) return nullptr;
  const ProcessGroup& made = run_.add_group(call.rare->name, static_cast<int>(call.sequence), members);
  return std::make_unique<NcclCommunicator>(run_, run_.add_channel(made, std::move(link)));
}

NcclGroups::NcclGroups(NcclRun& run, std::unique_ptr<NcclLink> world) : run_(run) {
  std::vector<int> ranks;
  for (int rank = 0; rank < run.layout.grid_size; ++rank) ranks.push_back(rank);
  NcclChannel& all = run.add_channel(run.add_group("world", 0, std::move(ranks)), std::move(world));
  world_ = std::make_unique<NcclCommunicator>(run, all);
  for (const NcclSplit& split : nccl_splits(run.layout)) {
    const auto rank = static_cast<std::size_t>(run.rank);
    std::unique_ptr<NcclLink> link = all.split(split.colors[rank], split.keys[rank], [&] {
      return all.text(fmt::format("making the groups of {} out", split.kind));
    });
    if (link == nullptr) continue;
    const sim::GroupKind& kind = *run.layout.find(split.kind);
    const ProcessGroup& group =
        run.add_group(split.kind, split.colors[rank], kind.members(split.colors[rank]));
    by_kind_[split.kind] = std::make_unique<NcclCommunicator>(run, run.add_channel(group, std::move(link)));
  }
}

sim::Communicator* NcclGroups::find(std::string_view kind) {
  if (kind == "world") return world_.get();
  const auto known = by_kind_.find(kind);
  if (known != by_kind_.end()) return known->second.get();
  const sim::GroupKind* of_layout = run_.layout.find(kind);
  const auto place = of_layout == nullptr ? std::nullopt : of_layout->place_of(run_.rank);
  if (!place) return nullptr;
  const ProcessGroup& alone =
      run_.add_group(of_layout->name(), place->group, of_layout->members(place->group));
  auto made = std::make_unique<NcclCommunicator>(run_, run_.add_channel(alone, nullptr));
  return by_kind_.emplace(std::string(kind), std::move(made)).first->second.get();
}

sim::Communicator& NcclGroups::get(std::string_view kind) {
  sim::Communicator* found = find(kind);
  if (found != nullptr) return *found;
  sim::refuse_no_group(run_.layout, run_.rank, kind);
}

sim::Communicator* NcclGroups::new_group(std::string name, const std::vector<int>& members, sim::Site site) {
  const std::vector<int>& ranks = world_->group().members;
  sim::require_new_group(
      run_.layout, run_.rank, name, members, world_->size(),
      [&](int member) { return std::find(ranks.begin(), ranks.end(), member) != ranks.end(); }, site);
  std::unique_ptr<NcclCommunicator> made = world_->new_group(std::move(name), members, site);
  if (made == nullptr) return nullptr;
  return made_.emplace_back(std::move(made)).get();
}

}  // namespace gpu
