#include "sim/comm/work_parts.h"

#include "sim/tensor/counting_device.h"

namespace sim {

namespace {

void begin_part(Rank& rank, const WorkPart& part) {
  rank.record.begin_part(part);
  if (auto* counting = dynamic_cast<CountingDevice*>(&rank.device); counting != nullptr)
    counting->begin_part(part, static_cast<std::size_t>(rank.record.number_of_calls()));
}

}  // namespace

void begin_step(Rank& rank, std::int64_t step) { begin_part(rank, {.step = step}); }

void begin_pass(Rank& rank, const char* pass, int microbatch, int chunk) {
  begin_part(rank, {.pass = pass, .microbatch = microbatch, .chunk = chunk, .step = rank.record.part().step});
}

void end_pass(Rank& rank) { begin_part(rank, {.step = rank.record.part().step}); }

void begin_layer(Rank& rank, int layer) {
  WorkPart part = rank.record.part();
  part.layer = layer;
  begin_part(rank, part);
}

void end_layer(Rank& rank) { begin_layer(rank, WorkPart::kNone); }

}  // namespace sim
