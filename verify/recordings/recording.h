#pragma once

/// What the flight recorder of one rank has recorded: the model of a dump, whatever its format.
///
/// PyTorch keeps the last calls of a rank in a ring and writes them when a job hangs. A dump says which
/// groups the rank is in, how far each of its communicators came, and the calls that are still in the ring.
///
/// Shapes  calls in the order in which the rank issued them, oldest first. An id of a text, a size or a group
///         is an index into `texts`, `sizes` or `groups` of the same recording. Ranks are global ranks; the
///         ranks in the name of a p2p operation ("nccl:send 0->3") are positions in its group.
/// Source  PyTorch, FlightRecorder.hpp and FlightRecorderDetail.hpp, versions 2.4 to 2.10.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace verify {

// Texts that are kept once: a text that was added before has the same id again. Id 0 is the empty text.
//
// Shapes  ids count from 0 in the order in which texts are added.

class InternedTexts {
 public:
  InternedTexts() { add(""); }
  InternedTexts(InternedTexts&&) = default;  // no copies: `ids_` has views into `texts_`
  InternedTexts& operator=(InternedTexts&&) = default;
  std::uint32_t add(std::string_view text) {
    if (const auto known = ids_.find(text); known != ids_.end()) return known->second;
    texts_.emplace_back(text);
    return ids_[texts_.back()] = static_cast<std::uint32_t>(texts_.size() - 1);
  }
  const std::string& operator[](std::uint32_t id) const { return texts_[id]; }
  std::size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, std::uint32_t> ids_;
};

/// More ranks than any job has. A larger number in a file's name or in a group is no rank.
inline constexpr int kMostRecordedRanks = 1 << 20;

/// How far a call came, as far as the dump says. Without timing a recorder does not know `started`.
enum class CallState : std::uint8_t { scheduled, started, completed };

/// A call that a rank issued. 64 bytes, because a job may have recorded 30 million.
struct RecordedCall {
  std::int64_t record_id = -1;    // counts the calls of the rank; -1: the dump does not say
  std::int64_t sequence = -1;     // counts the collectives of the group on this rank
  std::int64_t p2p_sequence = 0;  // counts the messages of the group on this rank
  std::int64_t created_ns = 0;
  std::uint32_t operation = 0;  // a text such as "nccl:all_reduce"
  std::uint32_t group = 0;
  std::uint32_t input_sizes = 0, output_sizes = 0;  // ids of `sizes`
  std::uint32_t dtypes = 0;                         // a text such as "BFloat16" or "Float, Long > Float"
  std::uint32_t thread = 0;                         // a text: the name of the thread that issued the call
  std::uint32_t frames = 0;  // a text with a line for each frame, the innermost first; "": no stack
  CallState state = CallState::scheduled;
  bool is_p2p : 1 = false;
  bool is_part : 1 = false;  // of a coalesced call, whose end the dump has

  /// The number that the parts of one coalesced call share. PyTorch 2.4 and 2.5 number batches of messages
  /// with the collectives.
  std::int64_t number(bool is_message) const {
    return is_message && p2p_sequence > 0 ? p2p_sequence : sequence;
  }
};

/// The sizes of the tensors of a call: the text "[[8, 16]]" and the number of elements in all.
struct RecordedSizes {
  std::uint32_t text = 0;
  std::int64_t elements = 0;
};

/// A group as the dump's "pg_config" has it. Ranks that are written alike share one list.
struct RecordedGroup {
  std::string name;
  std::string description;
  std::shared_ptr<const std::vector<int>> ranks;  // null: the dump does not say
  /// The dump has the rank's own number of the group alone, which other ranks may have for other groups.
  bool is_of_rank = false;
};

/// How far a communicator came, as the dump's "pg_status" has it. The number is the rank's own number of the
/// group, which is not the name of the group.
struct RecordedStatus {
  std::string number;
  std::int64_t enqueued = -1, completed = -1;
};

struct Recording {
  std::string path;
  int rank = -1;
  std::string version;        // of the format: "2.10"; "": the dump does not say
  bool is_truncated = false;  // the file ended early; what came before is here
  int last_rank = -1;         // the largest of the list that gloo writes of its last group
  std::vector<RecordedGroup> groups;
  std::size_t configured = 0;  // of the groups, the first ones are in "pg_config", the others only in calls
  std::vector<RecordedStatus> statuses;
  /// The number (RecordedStatus) and the group of every pair that a call shows.
  std::vector<std::pair<std::int64_t, std::uint32_t>> numbered;
  std::vector<RecordedCall> calls;
  /// Entries before the last of `calls` that end coalesced calls; they are not in `calls`.
  std::int64_t ends = 0;
  std::vector<RecordedSizes> sizes;
  InternedTexts texts;

  /// Whether it has every call that the rank has made.
  bool is_whole() const { return has_no_gaps() && calls.front().record_id == 0; }
  /// Whether it has every call from its first to its last one: a dump of active calls has others left out.
  bool has_no_gaps() const {
    return !calls.empty() && calls.front().record_id >= 0 &&
           calls.back().record_id - calls.front().record_id + 1 ==
               static_cast<std::int64_t>(calls.size()) + ends;
  }
  const std::string& text(std::uint32_t id) const { return texts[id]; }
  const std::string& operation(const RecordedCall& call) const { return texts[call.operation]; }
};

}  // namespace verify
