#pragma once

/// Counts the refusals of a rank's program towards its call limit. A program may catch the refusal of its own
/// call and call again without end; none of these calls has a record.
///
/// Calls   the backend sets it as the refusal watch of the thread while the rank's program runs. It counts
///         every refusal that meets the program: of a call, a wait, a group or a tensor.
/// Exact   the backend's GiveUp function is called with the latest refusal once the calls and the refusals
///         together are more than the call limit and kMostRefusals.

#include <cstdint>
#include <functional>
#include <optional>

#include "sim/base/error.h"
#include "sim/base/refusal_watch.h"
#include "sim/comm/recorder.h"

namespace sim {

class RefusalLimit : public RefusalWatch {
 public:
  using GiveUp = std::function<void(const Refusal&)>;
  RefusalLimit(const Recorder& recorder, std::int64_t call_limit, GiveUp give_up)
      : recorder_(recorder), call_limit_(call_limit), give_up_(std::move(give_up)) {}

  void on_refusal(const Refusal& refusal) override;
  /// The first refusal that met the program; null if none did.
  const Refusal* first() const { return first_ ? &*first_ : nullptr; }

 private:
  const Recorder& recorder_;
  std::int64_t call_limit_;
  GiveUp give_up_;
  std::int64_t refusals_ = 0;
  std::optional<Refusal> first_;
};

/// Returns the sentence for a program that is given up because of its refusals; it names the latest one.
std::string sentence_of_refusals(const Refusal& latest);

}  // namespace sim
