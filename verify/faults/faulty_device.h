#pragma once

/// A device with faults in its kernels (fault.h). The faults of calls are left to faulty_calls.h.
///
/// Shapes  the kernels that can have a fault are those that layers are made of; kernel_names() has them.
///         The result of a kernel is its first output.
/// Calls   drop-accumulate changes only kernels that add to their result.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"
#include "verify/faults/fault.h"

namespace verify {

class FaultyDevice : public sim::CpuDevice {
 public:
  explicit FaultyDevice(std::vector<Fault> faults) : faults_(std::move(faults)) {}
  FaultyDevice(const FaultyDevice& whole, int rank)
      : CpuDevice(whole, rank), faults_(whole.faults_), rank_(rank) {}
  std::shared_ptr<sim::Device> for_rank(int rank) override {
    return std::make_shared<FaultyDevice>(*this, rank);
  }

  void run(const sim::KernelCall& call) override;

 private:
  bool has(std::size_t fault, const char* name);

  std::vector<Fault> faults_;
  int rank_ = 0;
  std::map<std::pair<std::size_t, std::string>, std::int64_t> calls_;  // so far, of a fault and a kernel
};

/// Changes a result as a fault says that changes nothing else: scale with a number, nan, zero, offset or
/// transpose.
void change_result(const Fault& fault, sim::Tensor& out);

/// The sites of the kernels that can have a fault: "device.matmul", ...
std::vector<std::string> kernel_names();

// Faults of published tensors (fault.h), which are planted in the report of a run: the program computes what
// it should, and what it published is another tensor.
//
// Exact   the run hash stays that of the program.

/// Plants the faults of published tensors. The others are left to faulty_calls.h and faulty_device.h.
/// `device` has the field of the run.
void plant_in_tensors(sim::RunReport& report, const std::vector<Fault>& faults, sim::Device& device);

}  // namespace verify
