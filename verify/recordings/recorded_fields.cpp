#include "verify/recordings/recorded_fields.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "verify/output/refusal_table.h"

namespace verify {

namespace {

using Ranks = SharedRanks::Ranks;

bool is_rank(std::int64_t number) { return number >= 0 && number < kMostRecordedRanks; }

Ranks ranks_of_text(std::string_view text) {
  std::vector<int> ranks;
  for (std::size_t at = 0; at < text.size();) {
    if (std::string_view("[], ").find(text[at]) != std::string_view::npos) {
      ++at;
      continue;
    }
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error != std::errc() || !is_rank(number)) return nullptr;
    ranks.push_back(static_cast<int>(number));
    at = static_cast<std::size_t>(end - text.data());
  }
  return ranks.empty() ? nullptr : std::make_shared<const std::vector<int>>(std::move(ranks));
}

constexpr std::size_t kMostRecordedFrames = 64;  // FSDP is 20 deep; the others are of the launcher
constexpr std::size_t kMostPartsOfCoalesced = 1024;
constexpr std::size_t kMostCalls = std::size_t{1} << 20U;  // a whole file has no room for more than 400,000
constexpr std::size_t kMostVisits = 4 * kMostValues;
constexpr std::size_t kMostListed =
    8 * std::size_t{kMostRecordedRanks};     // members; 50 groups of 100,000 are fewer
constexpr std::size_t kMostGroups = 10'000;  // of a rank; Megatron's ranks are in about 50

std::optional<std::int64_t> recorded_number(const Value& value) {
  if (value.is(ValueKind::integer) || value.is(ValueKind::boolean)) return value.integer;
  return number_of(value.as_text());
}

bool is_set(const Value& value) { return recorded_number(value).value_or(0) != 0; }

class FieldReader {
 public:
  FieldReader(const ValueTree& tree, SharedRanks& lists, Recording& recording)
      : tree_(tree), lists_(lists), recording_(recording) {
    recording_.sizes.push_back({});
    sizes_of_text_.resize(1);
  }

  void read(const Value& dump) {
    read_heads(dump);
    const std::span<const Value> entries = elements_of(find(dump, "entries"));
    if (entries.size() > kMostCalls)
      refuse_by("dump_limit/calls", recording_.path, entries.size(), kMostCalls);
    recording_.calls.reserve(entries.size());
    for (const Value& entry : entries) {
      const bool may_be_cut = recording_.is_truncated && &entry == &entries.back();
      if (entry.is(ValueKind::dict) && !(may_be_cut && !has_key(entry, "state"))) read_call(entry);
    }
    settle_numbered();
    const auto by_id = [](const RecordedCall& a, const RecordedCall& b) { return a.record_id < b.record_id; };
    if (!std::ranges::is_sorted(recording_.calls, by_id)) std::ranges::stable_sort(recording_.calls, by_id);
    settle_coalesced();
    recording_.calls.shrink_to_fit();
  }

 private:
  void read_heads(const Value& dump) {
    recording_.version = std::string(find(dump, "version").as_text());
    const std::span<const Value> groups = elements_of(find(dump, "pg_config"));
    for (std::size_t i = 0; i + 1 < groups.size(); i += 2) read_group(groups[i].as_text(), groups[i + 1]);
    recording_.configured = recording_.groups.size();
    const std::span<const Value> statuses = elements_of(find(dump, "pg_status"));
    for (std::size_t i = 0; i + 1 < statuses.size(); i += 2) {
      const auto number = [&](const char* key) {
        return recorded_number(find(statuses[i + 1], key)).value_or(-1);
      };
      const bool may_be_cut = recording_.is_truncated && i + 2 >= statuses.size();
      const bool is_whole = has_key(statuses[i + 1], "last_enqueued_collective") &&
                            has_key(statuses[i + 1], "last_completed_collective");
      if (may_be_cut && !is_whole) continue;
      const Value& key = statuses[i];
      recording_.statuses.push_back(
          {.number = key.is(ValueKind::integer) ? std::to_string(key.integer) : std::string(key.as_text()),
           .enqueued = number("last_enqueued_collective"),
           .completed = number("last_completed_collective")});
    }
  }

  /// Returns the elements of a list or dict, and counts them. What stands in a file once may be an element of
  /// many entries, and reading it each time may take hours.
  std::span<const Value> elements_of(const Value& of) {
    const std::span<const Value> found = tree_.elements(of);
    visited_ += found.size();
    if (visited_ > kMostVisits) refuse_by("dump_limit/visits", recording_.path, kMostVisits);
    return found;
  }

  Value find(const Value& dict, std::string_view key) {
    static_cast<void>(elements_of(dict));
    return tree_.find(dict, key);
  }

  /// Whether a dict has a key, whose value may be none.
  bool has_key(const Value& dict, std::string_view key) {
    const std::span<const Value> pairs = elements_of(dict);
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
      if (pairs[i].as_text() == key) return true;
    return false;
  }

  void read_group(std::string_view key, const Value& config) {
    const Value name = find(config, "name");
    if (key.empty()) {  // gloo registers its groups without a name, each over the one before
      const auto list = lists_.find(find(config, "ranks"), tree_);
      if (list != nullptr && !list->empty()) recording_.last_rank = std::ranges::max(*list);
      return;
    }
    const std::uint32_t group =
        group_of(name.is(ValueKind::text) ? name.as_text() : key, find(config, "desc").as_text());
    const Value ranks = find(config, "ranks");
    static_cast<void>(elements_of(ranks));
    recording_.groups[group].ranks = lists_.find(ranks, tree_);
    if (recording_.groups[group].ranks != nullptr) members_ += recording_.groups[group].ranks->size();
    if (members_ > kMostListed) refuse_by("dump_limit/listed", recording_.path, kMostListed);
  }

  std::uint32_t group_of(std::string_view name, std::string_view description) {
    if (last_group_ < recording_.groups.size() && recording_.groups[last_group_].name == name &&
        recording_.groups[last_group_].description == description)
      return last_group_;
    for (std::size_t i = 0; i < recording_.groups.size(); ++i) {
      RecordedGroup& group = recording_.groups[i];
      if (group.name != name || (group.description != description && !description.empty())) continue;
      return last_group_ = static_cast<std::uint32_t>(i);
    }
    require_few(recording_.groups.size());
    recording_.groups.push_back({.name = std::string(name), .description = std::string(description)});
    return last_group_ = static_cast<std::uint32_t>(recording_.groups.size() - 1);
  }

  void read_call(const Value& entry) {
    static_cast<void>(elements_of(entry));
    const auto field = [&](std::string_view key) { return tree_.find(entry, key); };
    const auto number = [&](std::string_view key, std::int64_t otherwise) {
      return recorded_number(field(key)).value_or(otherwise);
    };
    RecordedCall call{.record_id = number("record_id", -1),
                      .sequence = number("collective_seq_id", number("seq_id", -1)),  // the latter before 2.0
                      .p2p_sequence = number("p2p_seq_id", 0),
                      .created_ns = number("time_created_ns", 0),
                      .operation = recording_.texts.add(field("profiling_name").as_text()),
                      .input_sizes = sizes_of(field("input_sizes")),
                      .output_sizes = sizes_of(field("output_sizes")),
                      .dtypes = dtypes_of(field("input_dtypes"), field("output_dtypes")),
                      .thread = recording_.texts.add(field("thread_name").as_text()),
                      .frames = frames_of(field("frames")),
                      .state = state_of(entry),
                      .is_p2p = is_set(field("is_p2p"))};
    const std::span<const Value> group = elements_of(field("process_group"));
    if (group.size() >= 2) call.group = group_of(group[0].as_text(), group[1].as_text());
    settle_group(call, number("pg_id", -1), group.size() >= 2);
    recording_.calls.push_back(call);
  }

  CallState state_of(const Value& entry) const {
    const auto has_set = [&](std::string_view key) { return is_set(tree_.find(entry, key)); };
    const std::string_view state = tree_.find(entry, "state").as_text();
    const bool is_of_gloo = tree_.find(entry, "profiling_name").as_text().starts_with("gloo:");
    if (state == "completed" || has_set("time_discovered_completed_ns") || (is_of_gloo && has_set("retired")))
      return CallState::completed;
    return state == "started" || has_set("time_discovered_started_ns") ? CallState::started
                                                                       : CallState::scheduled;
  }

  void settle_group(RecordedCall& call, std::int64_t number, bool has_group) {
    if (!has_group && number >= 0) {
      numbered_calls_.emplace_back(recording_.calls.size(), number);
    } else if (!has_group) {
      call.group = group_of("", "");
    } else if (number >= 0) {
      call.group = as_made_last(call.group, number, std::max(call.sequence, call.p2p_sequence));
      remember(number, call.group);
    }
  }

  /// Finds the groups of calls that have no "process_group", as before PyTorch 2.4, but the rank's own number
  /// of one. The numbers count the groups in the order of their names, so each number stands for the name at
  /// its place where as many are known of both. Otherwise the group is one that this rank alone knows.
  void settle_numbered() {
    std::map<std::int64_t, std::uint32_t> group_of_number;
    for (const auto& [call, number] : numbered_calls_) group_of_number.try_emplace(number, 0);
    if (!assign_by_order(group_of_number)) {
      for (auto& [number, group] : group_of_number) group = group_without_name(number);
    }
    for (const auto& [call, number] : numbered_calls_) {
      recording_.calls[call].group = group_of_number.at(number);
      remember(number, recording_.calls[call].group);
    }
  }

  bool assign_by_order(std::map<std::int64_t, std::uint32_t>& group_of_number) const {
    std::map<std::int64_t, std::uint32_t> names;
    for (std::uint32_t own = 0; own < recording_.configured; ++own) {
      const auto name = number_of(recording_.groups[own].name);
      if (!name || !names.emplace(*name, own).second) return false;
    }
    std::set<std::int64_t> numbers;
    for (const RecordedStatus& status : recording_.statuses) {
      const auto number = number_of(status.number);
      if (number) numbers.insert(*number);
    }
    for (const auto& [number, group] : group_of_number) numbers.insert(number);
    if (numbers.size() != names.size()) return false;
    auto name = names.begin();
    for (const std::int64_t number : numbers) {
      const auto found = group_of_number.find(number);
      if (found != group_of_number.end()) found->second = name->second;
      ++name;
    }
    return true;
  }

  /// The first communicator of a process is that of the default group.
  std::uint32_t group_without_name(std::int64_t number) {
    if (number == 0) return group_of("0", "default_pg");
    const std::uint32_t group = group_of(fmt::format("pg_id {}", number), "");
    recording_.groups[group].is_of_rank = true;
    return group;
  }

  /// Returns the group of a call by the rank's number of its communicator. A group that was destroyed and
  /// made again has the name of the one before, a larger number, and calls that are counted from the
  /// beginning.
  std::uint32_t as_made_last(std::uint32_t named, std::int64_t number, std::int64_t sequence) {
    if (named >= made_.size()) made_.resize(named + 1);
    Made& last = made_[named];
    const bool is_made_again = last.number >= 0 && number > last.number && sequence <= last.sequence;
    if (last.number < 0 || is_made_again) {
      last.number = number;
      last.sequence = -1;
      last.group = is_made_again ? copy_of_group(named, ++last.times) : named;
    }
    last.sequence = std::max(last.sequence, sequence);
    return last.group;
  }

  std::uint32_t copy_of_group(std::uint32_t group, int times) {
    require_few(recording_.groups.size());
    RecordedGroup copy = recording_.groups[group];
    copy.name += times == 1 ? " (made again)" : fmt::format(" (made {} times more)", times);
    recording_.groups.push_back(std::move(copy));
    return static_cast<std::uint32_t>(recording_.groups.size() - 1);
  }

  void remember(std::int64_t number, std::uint32_t group) {
    const std::pair<std::int64_t, std::uint32_t> pair(number, group);
    auto& numbered = recording_.numbered;
    if (!numbered.empty() && numbered[last_number_] == pair) return;
    const auto found = std::ranges::find(numbered, pair);
    last_number_ = static_cast<std::size_t>(found - numbered.begin());
    if (found != numbered.end()) return;
    require_few(numbered.size());
    numbered.push_back(pair);
  }

  void require_few(std::size_t groups) const {
    if (groups == kMostGroups) refuse_by("dump_limit/groups", recording_.path, kMostGroups);
  }

  /// Returns the id of sizes such as [[8, 16], [4]].
  std::uint32_t sizes_of(const Value& lists) {
    buffer_.clear();
    buffer_ += '[';
    std::int64_t elements = 0;
    for (const Value& list : elements_of(lists)) {
      if (buffer_.size() > 4096) break;  // of thousands of tensors, the first ones tell enough
      if (buffer_.size() > 1) buffer_ += ", ";
      buffer_ += '[';
      std::int64_t own = 1;
      for (const Value& size : elements_of(list)) {
        if (buffer_.back() != '[') buffer_ += ", ";
        const std::int64_t number = recorded_number(size).value_or(-1);
        if (own < 0 || number < 0 || __builtin_mul_overflow(own, number, &own)) own = -1;
        fmt::format_to(std::back_inserter(buffer_), "{}", number);
        if (buffer_.size() > 4096) break;
      }
      buffer_ += ']';
      if (own < 0 || elements < 0 || __builtin_add_overflow(elements, own, &elements)) elements = -1;
    }
    buffer_ += ']';
    const std::uint32_t text = recording_.texts.add(buffer_);
    if (text >= sizes_of_text_.size()) sizes_of_text_.resize(recording_.texts.size());
    if (sizes_of_text_[text] == 0) {
      recording_.sizes.push_back({text, elements});
      sizes_of_text_[text] = static_cast<std::uint32_t>(recording_.sizes.size() - 1);
    }
    return sizes_of_text_[text];
  }

  /// Appends "BFloat16", or "Long, Float" if there are several.
  void append_dtypes(const Value& list) {
    std::string_view last;
    std::size_t written = 0;
    for (const Value& dtype : elements_of(list)) {
      if (dtype.as_text() == last || written == 8) continue;
      if (written++ > 0) buffer_ += ", ";
      buffer_ += last = dtype.as_text();
    }
  }

  std::uint32_t dtypes_of(const Value& in, const Value& out) {
    buffer_.clear();
    append_dtypes(in);
    const std::size_t middle = buffer_.size();
    append_dtypes(out);
    const std::string_view both = buffer_;
    if (both.substr(0, middle) == both.substr(middle)) {
      buffer_.resize(middle);
    } else {
      buffer_.insert(middle, " > ");
    }
    return recording_.texts.add(buffer_);
  }

  std::uint32_t frames_of(const Value& list) {
    const std::span<const Value> frames = elements_of(list);
    buffer_.clear();
    for (std::size_t i = 0; i < std::min(frames.size(), kMostRecordedFrames); ++i) {
      if (i > 0) buffer_ += '\n';
      buffer_ += fmt::format("{} ({}:{})", find(frames[i], "name").as_text().substr(0, 200),
                             find(frames[i], "filename").as_text().substr(0, 1000),
                             recorded_number(find(frames[i], "line")).value_or(0));
    }
    return recording_.texts.add(buffer_);
  }

  /// Gives the parts of a coalesced call the state of the call that ends them, which is then left out.
  void settle_coalesced() {
    auto& calls = recording_.calls;
    std::vector<bool> goes(calls.size());
    bool any = false;
    for (std::size_t end = 0; end < calls.size(); ++end) {
      if (!recording_.operation(calls[end]).ends_with(":coalesced")) continue;
      const std::size_t least = end - std::min(end, kMostPartsOfCoalesced);
      for (std::size_t i = end; i-- > least;) {
        if (calls[i].group != calls[end].group) continue;
        if (calls[i].number(calls[i].is_p2p) != calls[end].number(calls[end].is_p2p) || goes[i]) break;
        calls[i].state = std::max(calls[i].state, calls[end].state);
        calls[i].is_part = goes[end] = any = true;
      }
    }
    if (!any) return;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!goes[i]) calls[kept++] = calls[i];
    }
    calls.resize(kept);
    while (goes.back()) goes.pop_back();
    recording_.ends = std::ranges::count(goes, true);
  }

  /// What the calls have shown so far of the groups of one name.
  struct Made {
    std::int64_t number = -1;  // the rank's own, of the group that was made last
    std::int64_t sequence = -1;
    std::uint32_t group = 0;
    int times = 0;  // that it was made again
  };

  const ValueTree& tree_;
  SharedRanks& lists_;
  Recording& recording_;
  std::vector<std::pair<std::size_t, std::int64_t>> numbered_calls_;  // that have no name of their group
  std::vector<Made> made_;                                            // by the group that has the name first
  std::uint32_t last_group_ = 0;
  std::size_t last_number_ = 0;
  std::size_t visited_ = 0;
  std::size_t members_ = 0;                   // of the groups, as they are listed
  std::vector<std::uint32_t> sizes_of_text_;  // by the id of the text; 0: none yet
  std::string buffer_;
};

}  // namespace

SharedRanks::Ranks SharedRanks::find(const Value& value, const ValueTree& tree) {
  if (value.is(ValueKind::text)) {
    const std::string_view text = value.as_text();
    const std::scoped_lock lock(mutex_);
    if (const auto found = lists_.find(text); found != lists_.end()) return found->second;
    return lists_[std::string(text)] = ranks_of_text(text);
  }
  std::vector<int> ranks;
  for (const Value& rank : tree.elements(value)) {
    if (!rank.is(ValueKind::integer) || !is_rank(rank.integer)) return nullptr;
    ranks.push_back(static_cast<int>(rank.integer));
  }
  return ranks.empty() ? nullptr : std::make_shared<const std::vector<int>>(std::move(ranks));
}

bool has_fields_of_dump(const Value& value, const ValueTree& tree) {
  const char* const fields[] = {"entries", "pg_config", "pg_status"};
  return std::ranges::any_of(fields, [&](const char* field) {
    const Value found = tree.find(value, field);
    return found.is(ValueKind::list) || found.is(ValueKind::dict);
  });
}

Recording recorded(const ParsedFile& file, const ValueTree& tree, SharedRanks& lists,
                   const std::string& path) {
  Recording recording;
  recording.path = path;
  recording.is_truncated = file.is_truncated;
  FieldReader(tree, lists, recording).read(file.value);
  return recording;
}

}  // namespace verify
