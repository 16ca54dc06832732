#pragma once

/// One or more calls that were started and have not been waited for. Their buffers are in flight until wait()
/// returns.
///
/// Calls   the rank that started the calls calls wait() once; a second wait() does nothing. A rank whose
///         program ends without wait() is reported (pending_work).

#include <cstddef>
#include <memory>
#include <vector>

#include "sim/comm/recorder.h"

namespace sim {

class Work {
 public:
  Work() = default;
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  void wait();

 private:
  friend class Communicator;
  struct Started {
    std::unique_ptr<Pending> pending;  // null in a group of one member: the call is already done
    std::shared_ptr<Recorder> recorder;
    std::size_t record;
    Tensor input;
    Tensor output;
  };
  void drop();

  std::vector<Started> started_;
};

/// take_off() marks the buffers of a call as in flight; land() ends that.
void take_off(const Tensor& input, const Tensor& output, const Site& site);
void land(const Tensor& input, const Tensor& output);

}  // namespace sim
