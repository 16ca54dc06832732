// Proves which tensors a call keeps: those that its caller lends stay the caller's, and its own ones outlive
// the caller's.

#include "sim/comm/call.h"

#include <gtest/gtest.h>
#include <memory>
#include <utility>

#include "sim/cpu/cpu_device.h"

namespace {

using namespace sim;

class CallTensors : public testing::Test {
 protected:
  CallTensors() : tensor_(device_, DType::f32, {16}, storage_), owners_(storage_.use_count()) {}
  Call all_reduce(sim::CallTensors tensors) {
    return {Operation::all_reduce, "all_reduce", tensor_, tensor_, tensors};
  }

  CpuDevice device_;
  std::shared_ptr<Storage> storage_ = std::make_shared<Storage>(std::make_shared<MemoryPool>(), 0, 64);
  Tensor tensor_;
  long owners_;  // of the storage, without calls
};

TEST_F(CallTensors, LentOnesAreTheCallers) {
  const Call call = all_reduce(sim::CallTensors::lent);
  const Call copy = call;
  EXPECT_EQ(&*call.input, &tensor_);
  EXPECT_EQ(&*copy.output, &tensor_);
  EXPECT_EQ(storage_.use_count(), owners_);
}

TEST_F(CallTensors, OwnOnesOutliveTheCaller) {
  Call call = all_reduce(sim::CallTensors::own);
  EXPECT_EQ(&*call.input, &*call.output);
  EXPECT_EQ(storage_.use_count(), owners_ + 1);
  tensor_ = Tensor();
  const Call moved = std::move(call);
  EXPECT_EQ(moved.input->count(), 16);
  EXPECT_EQ(moved.input->data(), storage_->data());
}

TEST_F(CallTensors, ACallMayGetOthers) {
  Call call(Operation::barrier, "barrier");
  EXPECT_TRUE(call.input->is_none());
  call.input = tensor_;
  const Call copy = call;
  call.input = CallTensor();
  EXPECT_TRUE(call.input->is_none());
  EXPECT_EQ(copy.input->data(), tensor_.data());
  EXPECT_EQ(storage_.use_count(), owners_ + 1);
}

}  // namespace
