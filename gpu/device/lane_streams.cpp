#include "gpu/device/lane_streams.h"

namespace gpu {

LaneStreams::~LaneStreams() {
  for (Vendor* vendor : vendors_) {
    if (vendor != nullptr) end_vendor(vendor);
  }
  for (Stream* stream : streams_) {
    if (stream != nullptr) end_stream(stream);
  }
}

Stream* LaneStreams::stream(std::size_t lane) {
  const std::lock_guard lock(mutex_);
  Stream*& stream = streams_[lane];
  if (stream == nullptr) stream = make_stream();
  return stream;
}

Vendor* LaneStreams::vendor(std::size_t lane) {
  Stream* of_lane = stream(lane);
  const std::lock_guard lock(mutex_);
  Vendor*& vendor = vendors_[lane];
  if (vendor == nullptr) vendor = make_vendor(of_lane);
  return vendor;
}

}  // namespace gpu
