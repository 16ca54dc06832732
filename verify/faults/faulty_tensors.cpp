#include "verify/faults/faulty_tensors.h"

#include "verify/faults/faulty_device.h"

namespace verify {

void plant_in_tensors(sim::RunReport& report, const std::vector<Fault>& faults, sim::Device& device) {
  for (const Fault& fault : faults) {
    if (!fault.is_of_tensors()) continue;
    for (sim::RankReport& rank : report.ranks) {
      for (sim::Published& published : rank.published) {
        if (!fits_pattern(fault.site, "tensor." + published.name)) continue;
        if (!fault.is_at({.rank = rank.rank})) continue;
        sim::Tensor tensor = device.empty(published.dtype, published.shape);
        device.from_host(published.values, tensor);
        change_result(fault, tensor);
        device.to_host(tensor, published.values);
        ++*fault.met;
      }
    }
  }
}

}  // namespace verify
