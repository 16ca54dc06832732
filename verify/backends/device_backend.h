#pragma once

/// A backend in one process: virtual ranks on another device, which does not have the field.
///
/// Errors  an error of a rank program is the failure of the run.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "sim/meeting/rendezvous.h"
#include "sim/world/simulate.h"
#include "verify/backends/backend.h"

namespace verify {

class DeviceBackend : public Backend {
 public:
  DeviceBackend(const char* name, std::shared_ptr<sim::Device> device, SameBits same_bits)
      : name_(name), device_(std::move(device)), same_bits_(same_bits) {}

  const char* name() const override { return name_; }
  bool ranks_are_processes() const override { return false; }
  int rank() const override { return 0; }
  int processes() const override { return 1; }
  bool has(sim::DType dtype) const override { return dtype != sim::DType::field; }
  SameBits same_bits() const override { return same_bits_; }
  RanksHere run(const sim::WorldSpec& world, sim::CpuDevice&, const sim::RankProgram& program) override {
    sim::RunReport report = sim::simulate(world, *device_, program);
    std::string failure = report.ok() ? "" : report.failure();
    return {std::move(report.ranks), std::move(report.kept), std::move(failure)};
  }
  sim::Conclusion finish(const sim::Report& report) override {
    return {report.is_equal ? 0 : 1, {}, {report}};
  }
  void close() override {}
  [[noreturn]] void end_all(const std::string& text, int exit_code) override {
    std::fputs(text.c_str(), stderr);
    std::exit(exit_code);
  }

 private:
  const char* name_;
  std::shared_ptr<sim::Device> device_;
  SameBits same_bits_;
};

}  // namespace verify
