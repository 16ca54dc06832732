#pragma once

/// The memory behind one or more tensors, with a record of the communication calls that have parts of it
/// in flight. Between the start of a call and the return of its wait(), nobody may write what the call
/// reads, nor read or write what it writes.
///
/// Shapes  ranges are in bytes from the start of the storage.
/// Calls   a storage belongs to one rank: two threads never touch it at the same time.
/// Errors  buffer_in_flight_read, buffer_in_flight_write: the refusal names the site that started the
///         call.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "sim/base/site.h"
#include "sim/tensor/memory_pool.h"

namespace sim {

struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  /// An empty range overlaps no other, not even one that it lies within.
  bool overlaps(const ByteRange& other) const {
    return std::max(begin, other.begin) < std::min(end, other.end);
  }
  bool operator==(const ByteRange&) const = default;
};

enum class Access { read, write };

class Storage {
 public:
  /// Keeps `device` alive, which is the device whose tensors use the memory.
  Storage(std::shared_ptr<MemoryPool> pool, std::size_t lane, std::int64_t bytes,
          std::shared_ptr<const void> device = nullptr);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  /// Returns the lane of the pool from which the memory came.
  std::size_t lane() const { return lane_; }

  /// True if no call in flight forbids the access.
  bool is_free(ByteRange range, Access access) const {
    return (writes_.empty() && (access == Access::read || reads_.empty())) ||
           first_conflict(range, access) == nullptr;
  }
  /// Refuses an access that a call in flight forbids. `user` names the operation: "add",
  /// "tp.all_reduce at ...".
  void require_access(ByteRange range, Access access, const char* user) const {
    if (!is_free(range, access)) refuse_access(range, access, user);
  }
  /// Records that a call, started at `site`, has the range in flight, until land() is called with the
  /// same range and access.
  void take_off(ByteRange range, Access access, const Site& site);
  void land(ByteRange range, Access access);

 private:
  struct Flight {
    ByteRange range;
    Access access;
    Site site;
  };
  using Flights = std::multimap<std::int64_t, Flight>;  // keyed by the begin of the range
  const Flight* first_overlap(const Flights& flights, ByteRange range) const;
  Flights& flights_of(Access access) { return access == Access::read ? reads_ : writes_; }
  const Flight* first_conflict(ByteRange range, Access access) const;
  [[noreturn]] void refuse_access(ByteRange range, Access access, const char* user) const;

  std::shared_ptr<MemoryPool> pool_;
  std::size_t lane_;
  std::int64_t bytes_;
  std::byte* data_;
  std::shared_ptr<const void> device_;
  Flights reads_, writes_;
  std::int64_t longest_flight_ = 0;
};

}  // namespace sim
