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

  void matmul(const sim::Tensor& a, bool a_transposed, const sim::Tensor& b, bool b_transposed,
              sim::Tensor& out, bool accumulate) override;
  void add_bias(const sim::Tensor& x, const sim::Tensor& bias, sim::Tensor& out) override;
  void add_column_sums(const sim::Tensor& x, sim::Tensor& sums) override;
  void lookup(const sim::Tensor& table, const sim::Tensor& ids, std::int64_t first_id,
              sim::Tensor& out) override;
  void add_to_rows(const sim::Tensor& rows, const sim::Tensor& ids, std::int64_t first_id,
                   sim::Tensor& table) override;
  void permute(const sim::Tensor& from, std::array<int, 4> order, sim::Tensor& to) override;
  void activate(sim::Activation function, const sim::Tensor& x, sim::Tensor& out) override;
  void activate_backward(sim::Activation function, const sim::Tensor& x, const sim::Tensor& grad,
                         sim::Tensor& out) override;
  void dropout(const sim::Tensor& x, const sim::KeyedRandom& stream, sim::Ratio drop,
               sim::Tensor& out) override;
  void rotate(const sim::Tensor& x, const sim::Tensor& cosines, const sim::Tensor& sines, bool backward,
              sim::Tensor& out) override;
  void softmax(const sim::Tensor& x, std::int64_t divisor, sim::SeenKeys keys, sim::Tensor& out) override;
  void softmax_backward(const sim::Tensor& p, const sim::Tensor& grad, std::int64_t divisor,
                        sim::Tensor& out) override;
  void normalize(sim::Norm norm, const sim::Tensor& x, const sim::Tensor& weight, const sim::Tensor& bias,
                 sim::Ratio epsilon, sim::Tensor& out, sim::Tensor& stats) override;
  void adam(const sim::Tensor& grad, const sim::AdamStep& step, sim::Tensor& param, sim::Tensor& exp_avg,
            sim::Tensor& exp_avg_sq) override;
  void clip_factor(const sim::Tensor& sum_of_squares, sim::Ratio most, sim::Tensor& factor) override;
  void scale_by(sim::Tensor& x, const sim::Tensor& factor) override;
  void token_loss(const sim::Tensor& parts, const sim::Tensor& targets, const sim::TokenLoss& loss,
                  sim::Tensor& out) override;
  void token_loss_backward(const sim::Tensor& exps, const sim::Tensor& parts, const sim::Tensor& targets,
                           const sim::TokenLoss& loss, const sim::Tensor& grad, sim::Tensor& out) override;

 private:
  template <typename Kernel>
  void run(const char* name, sim::Tensor& out, bool adds, const Kernel& kernel);
  bool has(std::size_t fault, const char* name);

  std::vector<Fault> faults_;
  int rank_ = 0;
  std::map<std::pair<std::size_t, std::string>, std::int64_t> calls_;  // so far, of a fault and a kernel
};

/// Changes a result as a fault of kernels and published tensors says.
void change_result(const Fault& fault, sim::Tensor& out);

/// The sites of the kernels that can have a fault: "device.matmul", ...
const std::vector<std::string>& kernel_names();

// Faults of published tensors (fault.h), which are planted in the report of a run: the program computes what
// it should, and what it published is another tensor.
//
// Exact   the run hash stays that of the program.

/// Plants the faults of published tensors. The others are left to faulty_calls.h and faulty_device.h.
/// `device` has the field of the run.
void plant_in_tensors(sim::RunReport& report, const std::vector<Fault>& faults, sim::Device& device);

}  // namespace verify
