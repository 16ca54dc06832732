#include "verify/backends/device_backend.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "sim/world/simulate.h"

namespace verify {

RanksHere DeviceBackend::run(const sim::WorldSpec& world, sim::CpuDevice&, const sim::RankProgram& program) {
  sim::RunReport report = sim::simulate(world, *device_, program);
  std::string failure = report.ok() ? "" : report.failure();
  return {std::move(report.ranks), std::move(report.kept), std::move(failure)};
}

void DeviceBackend::end_all(const std::string& text, int exit_code) {
  std::fputs(text.c_str(), stderr);
  std::exit(exit_code);
}

}  // namespace verify
