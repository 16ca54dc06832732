#pragma once

/// The recorder of one rank keeps a record of each of its calls and the tensors that it published. If the
/// rank's device counts work (sim/tensor/counting_device.h), it also keeps the moments of the program at
/// which the rank called and waited. It knows the part of its work in which the rank is
/// (sim/comm/work_parts.h). In a world that keeps the latest calls alone, the records of earlier
/// ones are added up in a ledger and a hash as soon as nobody waits for them, and no moments are kept.
///
/// Calls   only its own rank uses a recorder while the program runs; others read it when the run is over.
/// Errors  call_limit: the rank made more calls than the limit, as a program that never ends would;
///         out_of_memory: it published more bytes than the limit; its published tensors are dropped. If
///         the program catches these errors more than kMostRefusals times, the recorder calls the GiveUp
///         function of the backend, which does not return.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/content_hash.h"
#include "sim/comm/call.h"
#include "sim/comm/call_log.h"
#include "sim/comm/ledger.h"
#include "sim/tensor/work_part.h"

namespace sim {

/// A published tensor, with the values that it had when it was published.
struct Published {
  std::string name;
  DType dtype;
  Shape shape;
  std::vector<std::byte> values;
  bool operator==(const Published&) const = default;
};

/// The number of refused calls after which a rank is given up, because its program catches the error that
/// should end it.
inline constexpr int kMostRefusals = 1000;

/// The most bytes that one rank may publish, names included, unless its world says another number. The
/// number is a choice: far more than a proof publishes, and small enough that a program that publishes
/// without end is refused before the machine has no memory left.
inline constexpr std::int64_t kMostPublishedBytes = std::int64_t{1} << 30;

/// A step of a rank's program that involves other ranks.
enum class MomentKind : std::uint8_t {
  call,   // a blocking call begins
  start,  // a call is started
  wait,   // the wait for a started call begins
};

struct Moment {
  MomentKind kind;
  std::size_t record;  // number of the call's record
  std::int64_t work;   // work that the device had counted up to this moment
  bool operator==(const Moment&) const = default;
};

/// The backend's state of a started call. wait() returns when the call is done.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
};

/// The calls of a rank whose records are no longer kept, in the order in which it made them.
struct FoldedCalls {
  std::int64_t count = 0;
  RankLedger ledger;
  ContentHash hash;  // as add_calls() adds them
};

/// Adds the contents of the first `count` calls of a log to a hash.
void add_calls(ContentHash& hash, const CallLog& calls, std::size_t count);

class Recorder {
 public:
  using GiveUp = std::function<void()>;
  /// Keeps at least the latest `kept_calls` records; 0: all.
  Recorder(std::int64_t call_limit, GiveUp give_up, std::int64_t publish_limit = kMostPublishedBytes,
           std::int64_t kept_calls = 0)
      : wanted_room_(kept_calls == 0 ? SIZE_MAX : 2 * static_cast<std::size_t>(kept_calls)),
        room_(std::min(wanted_room_, static_cast<std::size_t>(call_limit))),
        call_limit_(call_limit),
        publish_limit_(publish_limit),
        give_up_(std::move(give_up)),
        kept_calls_(static_cast<std::size_t>(kept_calls)) {}

  /// Begins to keep moments, if this rank's device counts work.
  void keep_moments(const Device& device);

  /// Records a call of the member at `place` of a group, and returns the number of the record, which the
  /// functions below take.
  [[gnu::always_inline]] std::size_t add(const Call& call, const ProcessGroup& group, int place) {
    append(call, group, place);
    return latest();
  }
  /// Records a call that blocks. Returns whether it was waited for, which its caller sets when it has
  /// returned, before the rank makes another call.
  [[gnu::always_inline]] bool& add_blocking(const Call& call, const ProcessGroup& group, int place) {
    return append(call, group, place);
  }
  /// Marks the latest moment as the start of a call that does not block.
  void set_started() {
    if (!moments_.empty()) moments_.back().kind = MomentKind::start;
  }
  void wait_begins(std::size_t record) {
    if (counting_ != nullptr) add_moment(MomentKind::wait, record);
  }
  /// Marks a call as waited for. It does nothing when the run is over and the records have been taken.
  void set_waited(std::size_t record) {
    const std::size_t index = record - static_cast<std::size_t>(folded_.count);
    if (index < calls_.size()) calls_.set_waited(index);
  }
  /// Keeps a call that the program dropped without wait(), because its buffers are still in flight.
  void keep(std::unique_ptr<Pending> pending) { dropped_.push_back(std::move(pending)); }
  void publish(std::string name, const Tensor& tensor);
  void begin_part(const WorkPart& part) { part_ = part; }

  const WorkPart& part() const { return part_; }
  /// The records that are kept: all, or the latest ones.
  const CallLog& calls() const { return calls_; }
  const FoldedCalls& folded_calls() const { return folded_; }
  std::int64_t number_of_calls() const { return folded_.count + static_cast<std::int64_t>(calls_.size()); }
  bool has_call_in(const ProcessGroup& group) const;
  CallLog take_calls() { return std::exchange(calls_, {}); }
  std::vector<Moment> take_moments() { return std::move(moments_); }
  std::vector<Published> take_published() { return std::move(published_); }

 private:
  [[gnu::always_inline]] bool& append(const Call& call, const ProcessGroup& group, int place) {
    if (calls_.size() >= room_) make_room(call.site);
    bool* was_waited_for = calls_.add_known(call, group);
    if (was_waited_for == nullptr) was_waited_for = &add_form(call, group, place);
    if (counting_ != nullptr) add_moment(MomentKind::call, latest());
    return *was_waited_for;
  }
  /// Returns the number of the latest record.
  std::size_t latest() const { return static_cast<std::size_t>(number_of_calls() - 1); }
  [[noreturn]] void refuse_more(const Site& site);
  [[noreturn]] void refuse_more_published(const std::string& name, std::int64_t bytes);
  void add_moment(MomentKind kind, std::size_t record);
  bool& add_form(const Call& call, const ProcessGroup& group, int place);
  void make_room(const Site& site);
  void fold_earlier();

  // What every call reads comes first, on few lines of the cache.
  std::size_t wanted_room_;           // with this many records, the earlier ones are folded
  std::size_t room_;                  // the same, or fewer: with this many records, the rank is at its limit
  const Device* counting_ = nullptr;  // this rank's device, or null if no moments are kept
  CallLog calls_;
  FoldedCalls folded_;
  std::int64_t call_limit_;
  std::int64_t publish_limit_;
  GiveUp give_up_;
  std::size_t kept_calls_;
  int refusals_ = 0;
  std::vector<Moment> moments_;
  std::vector<Published> published_;
  WorkPart part_;
  std::int64_t published_bytes_ = 0;
  std::vector<std::unique_ptr<Pending>> dropped_;
};

}  // namespace sim
