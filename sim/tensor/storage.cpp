#include "sim/tensor/storage.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"

namespace sim {

Storage::Storage(std::shared_ptr<MemoryPool> pool, std::size_t lane, std::int64_t bytes,
                 std::shared_ptr<const void> device)
    : pool_(std::move(pool)),
      lane_(lane),
      bytes_(bytes),
      data_(pool_->take(static_cast<std::size_t>(bytes), lane)),
      device_(std::move(device)) {}

Storage::~Storage() { pool_->give_back(data_, static_cast<std::size_t>(bytes_), lane_); }

void Storage::take_off(ByteRange range, Access access, const Site& site) {
  flights_of(access).emplace(range.begin, Flight{range, access, site});
  longest_flight_ = std::max(longest_flight_, range.end - range.begin);
}

void Storage::land(ByteRange range, Access access) {
  Flights& flights = flights_of(access);
  const auto [first, last] = flights.equal_range(range.begin);
  const auto flight =
      std::find_if(first, last, [&](const auto& candidate) { return candidate.second.range == range; });
  CHECK(flight != last);
  flights.erase(flight);
}

const Storage::Flight* Storage::first_overlap(const Flights& flights, ByteRange range) const {
  if (range.begin == range.end) return nullptr;
  const auto end = flights.lower_bound(range.end);
  const auto overlap = std::find_if(flights.upper_bound(range.begin - longest_flight_), end,
                                    [&](const auto& flight) { return range.overlaps(flight.second.range); });
  return overlap == end ? nullptr : &overlap->second;
}

const Storage::Flight* Storage::first_conflict(ByteRange range, Access access) const {
  const Flight* conflict = first_overlap(writes_, range);
  return conflict == nullptr && access == Access::write ? first_overlap(reads_, range) : conflict;
}

void Storage::refuse_access(ByteRange range, Access access, const char* user) const {
  const Flight& flight = *first_conflict(range, access);
  const bool writes = access == Access::write;
  refuse({.code = writes ? "buffer_in_flight_write" : "buffer_in_flight_read",
          .option = user,
          .numbers = fmt::format("{} bytes {} to {} of a buffer whose bytes {} to {} are being {} by {}",
                                 writes ? "writes" : "reads", range.begin, range.end, flight.range.begin,
                                 flight.range.end, flight.access == Access::write ? "written" : "read",
                                 text_of(flight.site)),
          .rule = "a buffer may not be touched between the start of a call and its wait()",
          .hint = "wait() for the work first, or use another buffer"});
}

}  // namespace sim
