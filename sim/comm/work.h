#pragma once

/// One or more calls that were started and have not been waited for. Their buffers are in flight until wait()
/// returns.
///
/// Calls   wait() once, on the rank that started them; a second one does nothing. A rank that ends without it
///         is reported (pending_work).

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
    std::unique_ptr<Pending> pending;  // null: nothing had to be done
    std::shared_ptr<Recorder> recorder;
    std::size_t record;
    Tensor input;
    Tensor output;
  };
  void drop();

  std::vector<Started> started_;
};

/// Marks the buffers of a call as in flight, and as landed again.
void take_off(const Tensor& input, const Tensor& output, const Site& site);
void land(const Tensor& input, const Tensor& output);

}  // namespace sim
