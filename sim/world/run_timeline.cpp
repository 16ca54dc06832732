#include "sim/world/run_timeline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sim/base/check.h"

namespace sim {

namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// A call of one rank.
struct Member {
  std::size_t rank;  // index into RunReport::ranks
  std::size_t record;
};

/// A collective or a message, in which the calls of several ranks meet.
struct Meeting {
  std::vector<Member> members;   // the calls of all members that ever call
  std::size_t expected = 0;      // number of members that have to call
  std::size_t arrived = 0;       // number of members that have called so far
  std::size_t previous = kNone;  // the meeting that has to be over before this one begins
  std::size_t next = kNone;      // the meeting that follows this one
  std::int64_t cost = 0;
  std::int64_t ready = 0;  // the time of the latest arrival
  std::int64_t end = 0;
  bool is_message = false;
  bool is_eager = false;
  bool is_vain = false;
  bool is_over = false;
};

struct CallTime {
  std::size_t meeting = kNone;
  std::int64_t arrival = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_started = false;
  bool is_posted = false;
  bool is_known = false;  // whether begin and end are known
};

struct RankTime {
  std::vector<CallTime> calls;  // by record
  std::size_t next = 0;         // index of the next moment
  std::int64_t now = 0;
  std::int64_t work = 0;          // work that the rank has done up to now
  std::size_t stands_at = kNone;  // record of the call for which the rank waits, because its time is unknown
};

int place_of(const ProcessGroup& group, int rank) {
  const auto found = std::find(group.members.begin(), group.members.end(), rank);
  SIM_CHECK(found != group.members.end());
  return static_cast<int>(found - group.members.begin());
}

/// The meetings of a run. They are computed from the records, before any time passes.
class Meetings {
 public:
  Meetings(const RunReport& run, const TimelineCost& cost) : cost_(cost) {
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      of_records_.emplace_back();
      places_.clear();
      for (std::size_t record = 0; record < run.ranks[rank].calls.size(); ++record) {
        const CallRecord& call = run.ranks[rank].calls[record];
        const std::size_t meeting =
            is_point_to_point(call.operation) ? message_of(call, run.ranks[rank].rank) : collective_of(call);
        add(all_[meeting], call, {rank, record});
        of_records_.back().push_back(meeting);
      }
      find_vain(run.ranks[rank], of_records_.back());
    }
    for (Meeting& meeting : all_) meeting.is_vain |= meeting.members.size() != meeting.expected;
  }

  std::vector<Meeting>& all() { return all_; }
  std::size_t of(std::size_t rank, std::size_t record) const { return of_records_[rank][record]; }

 private:
  /// The group, the sender and the receiver; for collectives the last two are -1. Maps with this key are only
  /// looked up, never iterated.
  using Key = std::tuple<const ProcessGroup*, int, int>;

  std::size_t collective_of(const CallRecord& call) {
    return numbered({call.group, -1, -1}, call.sequence, static_cast<std::size_t>(call.group->size()));
  }

  std::size_t message_of(const CallRecord& call, int rank) {
    const auto [known, is_new] = places_.emplace(call.group, 0);
    if (is_new) known->second = place_of(*call.group, rank);
    const int place = known->second, peer = call.root_or_peer;
    const bool sends = call.operation == Operation::send;
    const std::size_t number =
        numbered({call.group, sends ? place : peer, sends ? peer : place}, call.sequence, 2);
    all_[number].is_message = true;
    return number;
  }

  /// Returns the meeting with this sequence number. It makes the meeting and those before it, if no member
  /// has called in them yet.
  std::size_t numbered(const Key& key, std::int64_t sequence, std::size_t expected) {
    std::vector<std::size_t>& line = lines_[key];
    while (std::ssize(line) <= sequence) {
      const std::size_t previous = line.empty() ? kNone : line.back();
      line.push_back(all_.size());
      if (previous != kNone) all_[previous].next = all_.size();
      all_.emplace_back();
      all_.back().expected = expected;
      all_.back().previous = previous;
    }
    return line[static_cast<std::size_t>(sequence)];
  }

  void add(Meeting& meeting, const CallRecord& call, const Member& member) const {
    meeting.members.push_back(member);
    if (call.group->size() == 1) return;
    meeting.cost = std::max(meeting.cost, cost_.latency + call.bytes_inside * cost_.byte_inside +
                                              call.bytes_across * cost_.byte_across);
    const std::int64_t bytes = call.count * size_of(call.dtype);
    meeting.is_eager |=
        call.operation == Operation::send && bytes <= cost_.eager_bytes && cost_.eager_bytes > 0;
  }

  /// Marks the meetings that this rank waited for and whose end it never saw.
  void find_vain(const RankReport& rank, const std::vector<std::size_t>& meetings) {
    for (const Moment& moment : rank.moments) {
      if (moment.kind != MomentKind::start && !rank.calls[moment.record].waited)
        all_[meetings[moment.record]].is_vain = true;
    }
  }

  const TimelineCost& cost_;
  std::vector<Meeting> all_;
  std::map<Key, std::vector<std::size_t>> lines_;
  std::map<const ProcessGroup*, int> places_;  // places of the rank whose records are being read
  std::vector<std::vector<std::size_t>> of_records_;
};

class Simulation {
 public:
  Simulation(const RunReport& run, const TimelineCost& cost)
      : run_(run), cost_(cost), meetings_(run, cost), times_(run.ranks.size()) {
    timeline_.ranks.resize(run.ranks.size());
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      times_[rank].calls.resize(run.ranks[rank].calls.size());
      for (std::size_t record = 0; record < times_[rank].calls.size(); ++record)
        times_[rank].calls[record].meeting = meetings_.of(rank, record);
      ready_.push_back(rank);
    }
  }

  RunTimeline result() {
    while (!ready_.empty()) {
      const std::size_t rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    for (const RankTime& rank : times_) {
      timeline_.length = std::max(timeline_.length, rank.now);
      for (const CallTime& call : rank.calls) timeline_.length = std::max(timeline_.length, call.end);
    }
    const bool stands_still = std::any_of(times_.begin(), times_.end(),
                                          [](const RankTime& rank) { return rank.stands_at != kNone; });
    if (stands_still) timeline_.length += cost_.latency;
    for (std::size_t rank = 0; rank < times_.size(); ++rank) {
      draw_vain(rank);
      draw_started(rank);
      list_calls(rank);
    }
    list_messages();
    return std::move(timeline_);
  }

 private:
  /// Advances a rank as far as the times that are known allow.
  void advance(std::size_t index) {
    RankTime& rank = times_[index];
    const std::vector<Moment>& moments = run_.ranks[index].moments;
    for (; rank.next < moments.size(); ++rank.next) {
      const Moment& moment = moments[rank.next];
      CallTime& call = rank.calls[moment.record];
      compute(index, moment.work);
      if (moment.kind != MomentKind::wait && !call.is_posted) {
        call.is_posted = true;
        call.is_started = moment.kind == MomentKind::start;
        call.arrival = rank.now;
        arrive(index, moment.record);
      }
      if (moment.kind == MomentKind::start) continue;
      if (!call.is_known) {
        rank.stands_at = moment.record;
        return;
      }
      rank.stands_at = kNone;
      const bool is_blocking = moment.kind == MomentKind::call;
      pass(index, SliceKind::wait, is_blocking ? call.begin : call.end, moment.record);
      if (is_blocking) pass(index, SliceKind::call, call.end, moment.record);
    }
    if (rank.next++ == moments.size()) compute(index, run_.ranks[index].work);
  }

  void compute(std::size_t rank, std::int64_t work) {
    const std::int64_t done = work - std::exchange(times_[rank].work, work);
    pass(rank, SliceKind::compute, times_[rank].now + done * cost_.work, 0);
  }

  /// Adds a slice from now to `until` and moves the time of the rank there. A slice of no time is left out,
  /// unless it is a call.
  void pass(std::size_t rank, SliceKind kind, std::int64_t until, std::size_t record) {
    std::int64_t& now = times_[rank].now;
    if (until > now || kind == SliceKind::call)
      timeline_.ranks[rank].push_back({kind, 0, now, until, record, false});
    now = std::max(now, until);
  }

  void arrive(std::size_t rank, std::size_t record) {
    CallTime& call = times_[rank].calls[record];
    const std::size_t number = call.meeting;
    Meeting& meeting = meetings_.all()[number];
    ++meeting.arrived;
    meeting.ready = std::max(meeting.ready, call.arrival);
    if (meeting.is_eager && run_.ranks[rank].calls[record].operation == Operation::send)
      set_time(rank, record, call.arrival, call.arrival + meeting.cost);
    for (std::size_t next = number; next != kNone && can_begin(next); next = meetings_.all()[next].next)
      finish(next);
  }

  bool can_begin(std::size_t number) {
    const Meeting& meeting = meetings_.all()[number];
    if (meeting.is_over || meeting.is_vain || meeting.arrived < meeting.expected) return false;
    return meeting.previous == kNone || meetings_.all()[meeting.previous].is_over;
  }

  void finish(std::size_t number) {
    Meeting& meeting = meetings_.all()[number];
    const std::int64_t before = meeting.previous == kNone ? 0 : meetings_.all()[meeting.previous].end;
    const std::int64_t begin = std::max(meeting.ready, before);
    meeting.end = begin + meeting.cost;
    meeting.is_over = true;
    for (const Member& member : meeting.members) set_time(member.rank, member.record, begin, meeting.end);
  }

  void set_time(std::size_t rank, std::size_t record, std::int64_t begin, std::int64_t end) {
    CallTime& call = times_[rank].calls[record];
    if (call.is_known) return;  // an eager send, whose time was set at its arrival
    call.begin = begin;
    call.end = end;
    call.is_known = true;
    if (times_[rank].stands_at == record) ready_.push_back(rank);
  }

  /// Adds the last slice of a rank that can never continue: it is in a blocking call, or waits for a
  /// started one.
  void draw_vain(std::size_t index) {
    const RankTime& rank = times_[index];
    if (rank.stands_at == kNone) return;
    const SliceKind kind = rank.calls[rank.stands_at].is_started ? SliceKind::wait : SliceKind::call;
    timeline_.ranks[index].push_back({kind, 0, rank.now, timeline_.length, rank.stands_at, true});
  }

  /// Adds the slices of started calls, each in the first lane that is free when the call begins.
  void draw_started(std::size_t index) {
    const RankTime& rank = times_[index];
    std::vector<Slice> started;
    for (std::size_t record = 0; record < rank.calls.size(); ++record) {
      const CallTime& call = rank.calls[record];
      if (!call.is_started) continue;
      started.push_back({SliceKind::call, 0, call.is_known ? call.begin : call.arrival,
                         call.is_known ? call.end : timeline_.length, record, !call.is_known});
    }
    std::stable_sort(started.begin(), started.end(),
                     [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
    std::vector<std::int64_t> free_from;  // by lane, from lane 1: the time from which the lane is free
    for (Slice& slice : started) {
      const auto lane = std::find_if(free_from.begin(), free_from.end(),
                                     [&](std::int64_t free) { return free <= slice.begin; });
      slice.lane = static_cast<int>(lane - free_from.begin()) + 1;
      if (lane == free_from.end()) {
        free_from.push_back(slice.end);
      } else {
        *lane = slice.end;
      }
      timeline_.ranks[index].push_back(slice);
    }
  }

  void list_calls(std::size_t index) {
    std::vector<CallTimes>& listed = timeline_.calls.emplace_back();
    for (const CallTime& call : times_[index].calls)
      listed.push_back({call.is_posted, call.is_known, call.arrival, call.begin, call.end});
  }

  void list_messages() {
    for (const Meeting& meeting : meetings_.all()) {
      if (!meeting.is_message || !meeting.is_over) continue;
      Member send = meeting.members[0], recv = meeting.members[1];
      if (run_.ranks[send.rank].calls[send.record].operation == Operation::recv) std::swap(send, recv);
      timeline_.messages.push_back({send.rank, send.record, recv.rank, recv.record});
    }
  }

  const RunReport& run_;
  const TimelineCost& cost_;
  Meetings meetings_;
  std::vector<RankTime> times_;     // in the order of run_.ranks
  std::vector<std::size_t> ready_;  // ranks that can continue
  RunTimeline timeline_;
};

}  // namespace

RunTimeline run_timeline(const RunReport& run, const TimelineCost& cost) {
  return Simulation(run, cost).result();
}

}  // namespace sim
