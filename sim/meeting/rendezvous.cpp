#include "sim/meeting/rendezvous.h"

#include <fmt/format.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"
#include "sim/meeting/rendezvous_guest.h"
#include "sim/meeting/rendezvous_host.h"

namespace sim {

namespace {

void require_spec(const RendezvousSpec& spec) {
  const auto refused = [](std::string numbers, const char* rule) {
    refuse({.code = "rendezvous_spec",
            .option = "rendezvous",
            .numbers = std::move(numbers),
            .rule = rule,
            .hint = "the values that detect_launch() returns, and a payload such as an id of 128 bytes"});
  };
  if (spec.rank < 0 || spec.rank >= spec.world_size || spec.world_size > (1 << 20)) {
    refused(fmt::format("rank {} of {}", spec.rank, spec.world_size), "0 <= rank < world size <= 2^20");
  }
  const int least_port = spec.rank == 0 ? 0 : 1;
  if (spec.master_port < least_port || spec.master_port > 65535) {
    refused(fmt::format("port {}", spec.master_port),
            "a port is from 1 to 65535; with 0 on rank 0, the system chooses one");
  }
  if (spec.payload.size() > kMostPayload) {
    refused(fmt::format("a payload of {} bytes", spec.payload.size()), "a payload has at most 4096 bytes");
  }
  if (spec.program_version.size() > kMostName) {
    refused(fmt::format("a version of {} characters", spec.program_version.size()),
            "a version has at most 256 characters");
  }
}

}  // namespace

Rendezvous::Rendezvous(RendezvousSpec spec) : spec_(std::move(spec)) {
  require_spec(spec_);
  if (spec_.world_size == 1) return;
  if (spec_.rank == 0) {
    host_ = std::make_unique<RendezvousHost>(spec_, dropped_);
  } else {
    guest_ = std::make_unique<RendezvousGuest>(spec_);
  }
}

Rendezvous::~Rendezvous() = default;

int Rendezvous::port() const { return host_ ? host_->port() : spec_.master_port; }

Meeting Rendezvous::meet() {
  CHECK(!has_met_);
  Meeting meeting{spec_.payload, {spec_.payload}, 0, 1};
  if (host_) meeting = host_->meet();
  if (guest_) meeting = guest_->meet();
  has_met_ = true;
  return meeting;
}

Conclusion Rendezvous::finish(const Report& report) {
  CHECK(has_met_);
  const Report kept{report.is_equal, report.text.substr(0, kMostText)};
  if (host_) return host_->finish(kept);
  if (guest_) return guest_->finish(kept);
  Conclusion conclusion = conclusion_of({kept.is_equal, {}});
  conclusion.reports = {kept};
  return conclusion;
}

}  // namespace sim
