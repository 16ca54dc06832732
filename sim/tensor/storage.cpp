#include "sim/tensor/storage.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"

namespace sim {

Storage::Storage(std::shared_ptr<MemoryPool> pool, std::size_t lane, std::int64_t bytes)
    : pool_(std::move(pool)),
      lane_(lane),
      bytes_(bytes),
      data_(pool_->take(static_cast<std::size_t>(bytes), lane)) {}

Storage::~Storage() { pool_->give_back(data_, static_cast<std::size_t>(bytes_), lane_); }

void Storage::land(ByteRange range, Access access) {
  const auto flight = std::find_if(flights_.begin(), flights_.end(), [&](const Flight& candidate) {
    return candidate.range == range && candidate.access == access;
  });
  CHECK(flight != flights_.end());
  flights_.erase(flight);
}

const Storage::Flight* Storage::first_conflict(ByteRange range, Access access) const {
  const auto conflict = std::find_if(flights_.begin(), flights_.end(), [&](const Flight& flight) {
    const bool both_read = access == Access::read && flight.access == Access::read;
    return !both_read && range.overlaps(flight.range);
  });
  return conflict == flights_.end() ? nullptr : &*conflict;
}

void Storage::refuse_access(ByteRange range, Access access, const char* user) const {
  const Flight& flight = *first_conflict(range, access);
  const bool writes = access == Access::write;
  refuse({.code = writes ? "buffer_in_flight_write" : "buffer_in_flight_read",
          .option = user,
          .numbers =
              fmt::format("{} bytes {} to {} of a buffer whose bytes {} to {} are being {} by '{}' ({}:{})",
                          writes ? "writes" : "reads", range.begin, range.end, flight.range.begin,
                          flight.range.end, flight.access == Access::write ? "written" : "read",
                          flight.site.name, flight.site.file, flight.site.line),
          .rule = "a buffer may not be touched between the start of a call and its wait()",
          .hint = "wait() for the work first, or use another buffer"});
}

}  // namespace sim
