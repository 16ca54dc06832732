// A rank program: every rank learns the mean loss of its data-parallel group. With the word `mistaken`, only
// the rank that would print the mean asks for it.
#include <cstdio>
#include <cstring>

#include "sim/cpu/cpu_device.h"
#include "sim/world/simulate.h"

int main(int words, char**) {
  const bool mistaken = words > 1;
  const sim::RankProgram program = [=](sim::Rank& rank) {
    sim::Communicator& dp = rank.groups.get("dp");
    const sim::Tensor loss = sim::filled(rank.device, sim::DType::f32, {1}, 1.0 + rank.id);
    if (dp.rank() == 0 || !mistaken) dp.all_reduce(loss, sim::ReduceOp::average, "example.mean_loss");
    rank.publish("loss", loss);
    dp.barrier("example.end_of_step");
  };
  sim::WorldSpec spec = sim::world_of(4);
  spec.reproduce = "build/example mistaken";
  sim::CpuDevice device;
  const sim::RunReport report = sim::simulate(spec, device, program);
  if (!report.ok()) {
    std::fputs(report.failure().c_str(), stdout);
    return 3;
  }
  float mean = 0;
  std::memcpy(&mean, report.find(3, "loss")->values.data(), sizeof mean);
  std::printf("the mean loss on rank 3 is %g\n", static_cast<double>(mean));
}
