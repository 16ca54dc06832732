#pragma once

/// The recordings of all ranks as one job: each group once, with what every rank says of it.
///
/// A group is identified by its ranks and its description. Two groups of the same ranks and description are
/// told by PyTorch's names, or by their order where the names differ between ranks. A group whose ranks
/// no dump says, as with gloo, has the ranks whose dumps have it, and the default group then has all ranks.
/// Ranks without a dump are members, too, where the form of other groups of the description says so
/// (unlisted_members.cpp); if they are not known, members may be missing.
///
/// Shapes  A dump is an index into `recordings`. Groups are sorted by name (as numbers), then by ranks.
/// Exact   "pg_status" has the rank's own numbers of groups. Calls show some pairs of number and group; where
///         the names of all groups are numbers, the others follow from their order, unless a pair
///         contradicts. What cannot be assigned is left out, and counted.
/// Errors  dump_limit: the groups have more than kMostMembers members in all.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "verify/recorded_job/operation.h"
#include "verify/recordings/recording.h"
#include "verify/recordings/recording_reader.h"

namespace verify {

/// A job of 16,384 ranks has fewer than a million.
inline constexpr std::size_t kMostMembers = std::size_t{1} << 25U;

/// Returns the dimension of a mesh that a description names: "pp" of "mesh_pp". Other descriptions are
/// returned as they are.
inline std::string_view mesh_dimension(std::string_view description) {
  constexpr std::string_view kMesh = "mesh_";
  return description.substr(description.starts_with(kMesh) ? kMesh.size() : 0);
}

struct JobGroup {
  std::string name;          // on its first rank
  std::string description;   // Megatron's, "default_pg", or PyTorch's "undefined"
  std::string kind;          // ours ("tp"); "" if the description is none of Megatron's
  std::vector<int> members;  // global ranks, in the order of the group
  bool has_known_members = true;
  /// No dump lists the members, and others than those that are known may wait in it, or be awaited.
  bool may_lack_members = false;
  bool has_messages = false;   // a call of the group is a send or a recv
  bool has_all_dumps = false;  // every member has a dump, and every member is known
  bool is_pipeline = false;    // its members are the stages of a pipeline, by its description
  /// Whether "pg_status" counts the collectives of the group on every rank. In a group with messages it
  /// counts those, too.
  bool has_status = false;
  bool is_ascending = false;
  bool is_default() const { return description == "default_pg"; }
  bool has_member(int rank) const;
  /// Returns the rank at a position; -1 where there is none, or where it is not known.
  int rank_at(int position) const {
    const bool is_known = !may_lack_members && position >= 0 && position < std::ssize(members);
    return is_known ? members[static_cast<std::size_t>(position)] : -1;
  }
};

/// What a rank says of a group.
struct GroupOfRank {
  std::uint32_t group = 0;  // index into Job::groups
  std::optional<RecordedStatus> status;
  std::int64_t last_recorded = -1;  // the largest collective_seq_id of its calls
};

/// A collective of a group, by its collective_seq_id.
struct CollectiveId {
  std::uint32_t group = 0;
  std::int64_t sequence = 0;
  auto operator<=>(const CollectiveId&) const = default;
};

struct Job;

/// A call of a dump, with what the job knows of it. The job must stay where it is.
struct JobCall {
  const Job* job = nullptr;
  std::size_t dump = 0;
  const RecordedCall* recorded = nullptr;

  const RecordedCall* operator->() const { return recorded; }
  bool operator==(const JobCall&) const = default;
  const Recording& recording() const;
  int rank() const { return recording().rank; }
  std::size_t index() const;
  const Operation& operation() const;
  std::uint32_t group_id() const;
  const JobGroup& group() const;
  bool is_completed() const { return recorded->state == CallState::completed; }
  /// Whether it has a collective_seq_id of its group: it is no message.
  bool is_collective() const { return !recorded->is_p2p && !operation().is_message(); }
  CollectiveId id() const { return {group_id(), recorded->sequence}; }
  /// Whether a member that has completed the call tells that all members had come to it.
  bool needs_all() const;
  /// The elements that go into it, and that come out; -1 where the dump does not tell.
  std::int64_t elements_in() const { return recording().sizes[recorded->input_sizes].elements; }
  std::int64_t elements_out() const { return recording().sizes[recorded->output_sizes].elements; }
  /// Returns the rank to which a message goes, or from which it comes; -1 if there is none.
  int peer() const { return group().rank_at(operation().peer()); }
  /// Whether the two are a send and a recv from one rank to one other in one group.
  bool is_other_half_of(const JobCall& other) const;
};

struct Job {
  std::vector<Recording> recordings;
  int world_size = 0;
  std::vector<int> dump_of_rank;  // -1: this rank has no dump
  std::vector<BlankDump> blank;   // dumps that hold nothing: their ranks count as ranks without one
  std::vector<JobGroup> groups;
  std::vector<std::vector<GroupOfRank>> groups_of;  // by dump, then by the recording's own groups
  std::vector<std::vector<Operation>> operations;   // by dump, then by the id of the text; empty names too
  std::size_t unassigned_statuses = 0;
  /// By dump: a call has ended with an error, as Gloo's do where a member died. It has ended, and "pg_status"
  /// does not count it as completed.
  std::vector<bool> has_failed_calls;

  auto dumps() const { return std::views::iota(std::size_t{0}, recordings.size()); }
  /// The calls of a dump, and those of all dumps.
  auto calls_of(std::size_t dump) const {
    return std::views::transform(recordings[dump].calls, [this, dump](const RecordedCall& call) {
      return JobCall{this, dump, &call};
    });
  }
  auto calls() const {
    return dumps() | std::views::transform([this](std::size_t dump) { return calls_of(dump); }) |
           std::views::join;
  }
  /// Returns the call of a dump with an index.
  template <typename Index>
  JobCall call_at(std::size_t dump, Index index) const {
    return {this, dump, &recordings[dump].calls[static_cast<std::size_t>(index)]};
  }
  /// Returns the call of a dump that is this collective.
  std::optional<JobCall> find_call(std::size_t dump, const CollectiveId& id) const;

  std::optional<std::size_t> dump_of(int rank) const {
    const int dump = dump_of_rank[static_cast<std::size_t>(rank)];
    return dump < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(dump));
  }
  /// Whether the recorder has collectives of gloo alone: a rank that stands still may wait in a message.
  bool has_no_messages() const {
    return std::ranges::all_of(calls(), [](const JobCall& call) {
      return call.operation().backend == "gloo" && !call.operation().is_message();
    });
  }
  int rank_of(std::size_t dump) const { return recordings[dump].rank; }
  /// Returns the recording of a rank; null where there is none.
  const Recording* find_recording(int rank) const {
    const auto dump = dump_of(rank);
    return dump ? &recordings[*dump] : nullptr;
  }
  std::vector<int> ranks_without_dump() const;  // ascending
  /// Returns the dump of a rank that holds nothing; null where there is none.
  const BlankDump* find_blank(int rank) const;

  /// Returns what the rank of a dump says of a group; null where it does not know the group.
  const GroupOfRank* find(std::size_t dump, std::uint32_t group) const;
  /// Returns how many collectives of a group "pg_status" counts on a rank; null where it does not.
  const RecordedStatus* counts_of(const GroupOfRank* own) const {
    return own != nullptr && own->status && groups[own->group].has_status ? &*own->status : nullptr;
  }
  /// A member of a group.
  struct Member {
    int rank;
    std::uint32_t group;
  };
  /// Returns the ranks at the place of a rank in other groups of the kind and size of one of its groups, but
  /// for those without a dump.
  std::vector<Member> counterparts(int rank, std::uint32_t group) const;
  /// Whether a completed call tells of other members. One of Gloo does if they all have dumps: it ends with
  /// an error where a member died.
  bool proves(const JobCall& call) const;
  bool has_pipelines() const;
  /// Returns the pipeline stage of the rank of a dump: its place in its pipeline group, or 0.
  std::ptrdiff_t stage_of(std::size_t dump) const;
};

inline const Recording& JobCall::recording() const { return job->recordings[dump]; }
inline const Operation& JobCall::operation() const { return job->operations[dump][recorded->operation]; }
inline std::uint32_t JobCall::group_id() const { return job->groups_of[dump][recorded->group].group; }
inline const JobGroup& JobCall::group() const { return job->groups[group_id()]; }
inline bool JobCall::needs_all() const {
  return !recorded->is_p2p && operation().needs_all() && job->proves(*this);
}
inline std::size_t JobCall::index() const {
  return static_cast<std::size_t>(recorded - recording().calls.data());
}

// ended_parts.cpp: the parts of coalesced calls that have ended, in dumps of active calls alone.
//
// A batch of messages, or a coalesced collective, has an entry for each part and one more, "nccl:coalesced",
// that ends it and has its state: the recorder never learns that a part has ended. A dump of active calls
// leaves out the entry that ends a batch once the batch has completed, and keeps the parts, which then look
// pending. The last batch of a file that was cut may have lost its end, and is left out where earlier ones
// have theirs.
//
// Shapes  A part that is still pending has the state of its batch, and is_part (recording.h).
// Exact   A call is taken for the part of a batch that has ended where its dump has no end of it, and where
//         calls of its group, by description and kind, are known as parts: another one is a part of a
//         pending batch, or two neighbours have one number, as those of a batch have. So a job that sends
//         some messages of a group alone and others in batches is not read right.
// Source  PyTorch, ProcessGroupNCCL::endCoalescing and FlightRecorder::dump_entries, version 2.9.

/// Removes these parts from all recordings of a job, unless one of them has completed calls, and the last
/// batches of files that were cut.
void leave_out_ended_parts(std::vector<Recording>& recordings);

// unlisted_members.cpp: members of groups that no dump lists ("pg_config" is missing). The ranks whose dumps
// have calls of the group are known, and others are not.
//
// Groups of one description have one form: their members are those of another one, moved by some ranks. So
// a group with fewer members than another one of its description has those ranks that are in no group of it
// which make it one of this form, if only one choice does. The only group of a description has all ranks
// without a dump where its gathers then have the right number of parts.
//
// Exact   A group may lack members where it is smaller than others of its description, or has one member,
//         where a message of it goes to a place that it has not, where its gathers and reduce_scatters have
//         another number of parts than it has members, or where ranks without a dump are in no group of its
//         description, and no such call confirms its size. So may one that a dump knows by the rank's own
//         number alone. Groups of a description that is none of Megatron's may have several sizes, if every
//         rank has a dump.

/// Completes the groups whose members no dump lists, and marks those that may lack some. The operations of
/// the job have to be known.
void complete_unlisted_members(Job& job);

Job job_of(Recordings recordings);

}  // namespace verify
