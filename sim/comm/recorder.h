#pragma once

/// What one rank leaves behind: the record of its calls, and the tensors it published; where its device
/// counts work (sim/tensor/counting_device.h), also when in its program it called and waited.
///
/// Calls   a recorder is used by its rank alone, and read when the run is over.
/// Errors  call_limit: a program that would call for ever is stopped. One that catches this again and again
///         is given up, in the backend's own way, which does not return.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/comm/call.h"

namespace sim {

/// A published tensor: its values at that moment.
struct Published {
  std::string name;
  DType dtype;
  Shape shape;
  std::vector<std::byte> values;
  bool operator==(const Published&) const = default;
};

/// Calls that are refused to one rank before it is given up: its program catches what should end it.
inline constexpr int kMostRefusals = 1000;

/// A step of a rank's program that has to do with others.
enum class MomentKind : std::uint8_t {
  call,   // a blocking call begins
  start,  // a call is started
  wait,   // the wait for a started call begins
};

struct Moment {
  MomentKind kind;
  std::size_t record;  // of the call
  std::int64_t work;   // the device's, up to here
  bool operator==(const Moment&) const = default;
};

/// A started call, as its backend holds it. wait() returns when the call is done.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
};

class Recorder {
 public:
  using GiveUp = std::function<void()>;
  Recorder(std::int64_t call_limit, GiveUp give_up) : call_limit_(call_limit), give_up_(std::move(give_up)) {}

  /// From now on, moments are kept, if this rank's device counts work.
  void keep_moments(const Device& device);

  /// The number of the record, for what comes after.
  std::size_t add(const CallRecord& call) {
    if (static_cast<std::int64_t>(calls_.size()) >= call_limit_) refuse_more(call);
    calls_.push_back(call);
    if (counting_ != nullptr) add_moment(MomentKind::call, calls_.size() - 1);
    return calls_.size() - 1;
  }
  /// The latest record is that of a call that is started, not waited for.
  void set_started() {
    if (!moments_.empty()) moments_.back().kind = MomentKind::start;
  }
  void wait_begins(std::size_t record) {
    if (counting_ != nullptr) add_moment(MomentKind::wait, record);
  }
  /// Does nothing when the run is over and the records are gone.
  void set_waited(std::size_t record) {
    if (record < calls_.size()) calls_[record].waited = true;
  }
  /// Keeps a call that its program dropped without wait(): its buffers are still in flight.
  void keep(std::unique_ptr<Pending> pending) { dropped_.push_back(std::move(pending)); }
  void publish(std::string name, const Tensor& tensor);

  const std::vector<CallRecord>& calls() const { return calls_; }
  std::vector<CallRecord> take_calls() { return std::move(calls_); }
  std::vector<Moment> take_moments() { return std::move(moments_); }
  std::vector<Published> take_published() { return std::move(published_); }

 private:
  [[noreturn]] void refuse_more(const CallRecord& call);
  void add_moment(MomentKind kind, std::size_t record);

  std::int64_t call_limit_;
  GiveUp give_up_;
  int refusals_ = 0;
  std::vector<CallRecord> calls_;
  const Device* counting_ = nullptr;  // or null
  std::vector<Moment> moments_;
  std::vector<Published> published_;
  std::vector<std::unique_ptr<Pending>> dropped_;
};

}  // namespace sim
