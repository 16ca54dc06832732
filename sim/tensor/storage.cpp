#include "sim/tensor/storage.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/error.h"

namespace sim {

Storage::Storage(const std::shared_ptr<MemoryPool>& pool, std::size_t lane, std::int64_t bytes,
                 std::shared_ptr<const void> device)
    : data_(pool->take(static_cast<std::size_t>(bytes), lane)),
      owner_(std::move(device)),
      pool_(pool.get()),
      lane_(lane),
      bytes_(bytes) {
  if (owner_ == nullptr) owner_ = pool;
}

Storage::Storage(std::int64_t bytes, std::shared_ptr<const void> device)
    : data_(nullptr), owner_(std::move(device)), pool_(nullptr), lane_(0), bytes_(bytes) {}

Storage::Storage(std::span<std::byte> lent, std::shared_ptr<const void> owner)
    : data_(lent.data()), owner_(std::move(owner)), pool_(nullptr), lane_(0), bytes_(std::ssize(lent)) {}

Storage::~Storage() { drop_memory(); }

void Storage::take_memory(const std::shared_ptr<MemoryPool>& pool, std::size_t lane) {
  SIM_CHECK(data_ == nullptr);
  if (owner_ == nullptr) owner_ = pool;
  pool_ = pool.get();
  lane_ = lane;
  data_ = pool_->take(static_cast<std::size_t>(bytes_), lane_);
}

void Storage::drop_memory() {
  if (data_ != nullptr && pool_ != nullptr) pool_->give_back(data_, static_cast<std::size_t>(bytes_), lane_);
  data_ = nullptr;
}

void refuse_no_elements(const char* user, std::int64_t bytes) {
  refuse({.code = "no_elements",
          .option = user,
          .numbers =
              fmt::format("a tensor of {} bytes on a device of shapes, which keeps no elements of it", bytes),
          .rule =
              "a program that runs on a device of shapes reads no floats, and only those whole numbers that "
              "it has written or received",
          .hint = "a device that computes, or a rule in place of the value (sim/shapes/shapes_device.h)"});
}

void Storage::take_off(ByteRange range, Access access, const Site& site) {
  if (flights_ == nullptr) flights_ = std::make_unique<Flights>();
  flights_->of(access).emplace(range.begin, Flight{range, access, site});
  flights_->longest = std::max(flights_->longest, range.end - range.begin);
}

void Storage::land(ByteRange range, Access access) {
  SIM_CHECK(flights_ != nullptr);
  ByBegin& flights = flights_->of(access);
  const auto [first, last] = flights.equal_range(range.begin);
  const auto flight =
      std::find_if(first, last, [&](const auto& candidate) { return candidate.second.range == range; });
  SIM_CHECK(flight != last);
  flights.erase(flight);
  if (flights_->reads.empty() && flights_->writes.empty()) flights_.reset();
}

const Storage::Flight* Storage::first_overlap(const ByBegin& flights, std::int64_t longest, ByteRange range) {
  if (range.begin == range.end) return nullptr;
  const auto end = flights.lower_bound(range.end);
  const auto overlap = std::find_if(flights.upper_bound(range.begin - longest), end,
                                    [&](const auto& flight) { return range.overlaps(flight.second.range); });
  return overlap == end ? nullptr : &overlap->second;
}

const Storage::Flight* Storage::first_conflict(ByteRange range, Access access) const {
  if (flights_ == nullptr) return nullptr;
  const Flight* conflict = first_overlap(flights_->writes, flights_->longest, range);
  return conflict == nullptr && access == Access::write
             ? first_overlap(flights_->reads, flights_->longest, range)
             : conflict;
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
