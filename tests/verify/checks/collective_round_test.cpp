// Proves that the collective round finds a device that computes or moves one thing wrongly.

#include "verify/checks/collective_round.h"

#include <gtest/gtest.h>

#include "sim/cpu/cpu_device.h"

namespace {

/// A device on which one kernel spoils the first element that it writes.
class FaultyDevice : public sim::CpuDevice {
 public:
  enum class Fault { none, fold, copy };
  explicit FaultyDevice(Fault fault) : fault_(fault) {}

  std::shared_ptr<sim::Device> for_rank(int) override { return std::make_shared<FaultyDevice>(fault_); }
  void run(const sim::KernelCall& call) override {
    CpuDevice::run(call);
    const bool has_fault = (call.kernel == sim::Kernel::fold && fault_ == Fault::fold) ||
                           (call.kernel == sim::Kernel::copy && fault_ == Fault::copy);
    for (const sim::Tensor* output : call.outputs) {
      if (has_fault) spoil(*output);
    }
  }

 private:
  static void spoil(const sim::Tensor& tensor) {
    if (tensor.count() > 0) tensor.data()[0] ^= std::byte{1};
  }
  Fault fault_;
};

verify::CheckResult round_on(FaultyDevice::Fault fault) {
  FaultyDevice device(fault);
  return verify::collective_round({.layout = sim::world_of(3).layout}, device).check;
}

TEST(CollectiveRound, FindsASumThatIsWrong) {
  const verify::CheckResult check = round_on(FaultyDevice::Fault::fold);
  EXPECT_FALSE(check.holds);
  EXPECT_NE(check.detail.find("all_reduce of"), std::string::npos) << check.detail;
}

TEST(CollectiveRound, FindsACopyThatIsWrong) {
  const verify::CheckResult check = round_on(FaultyDevice::Fault::copy);
  EXPECT_FALSE(check.holds);
  EXPECT_NE(check.detail.find("all_gather of"), std::string::npos) << check.detail;
}

TEST(CollectiveRound, HoldsWhereNothingIs) { EXPECT_TRUE(round_on(FaultyDevice::Fault::none).holds); }

}  // namespace
