#include "sim/comm/work_parts.h"

#include "sim/tensor/counting_device.h"

namespace sim {

namespace {

/// Begins a new part of the work: the current one, after `changed` has changed it.
template <typename Change>
void begin_part(Rank& rank, const Change& changed) {
  auto* counting = dynamic_cast<CountingDevice*>(&rank.device);
  if (counting == nullptr) return;
  WorkPart part = counting->part();
  changed(part);
  counting->begin_part(part, static_cast<std::size_t>(rank.record.number_of_calls()));
}

}  // namespace

void begin_pass(Rank& rank, const char* pass, int microbatch, int chunk) {
  begin_part(rank, [&](WorkPart& part) { part = {.pass = pass, .microbatch = microbatch, .chunk = chunk}; });
}

void end_pass(Rank& rank) {
  begin_part(rank, [](WorkPart& part) { part = {}; });
}

void begin_layer(Rank& rank, int layer) {
  begin_part(rank, [&](WorkPart& part) { part.layer = layer; });
}

void end_layer(Rank& rank) { begin_layer(rank, WorkPart::kNone); }

}  // namespace sim
