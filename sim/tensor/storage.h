#pragma once

/// The memory behind one or more tensors, and the communication calls that have it in flight. Between the
/// start of a call and the return of its wait() nobody may write what the call reads, nor touch what it
/// writes.
///
/// Shapes  bytes, from the start of the storage.
/// Calls   a storage belongs to one rank: it is never touched by two threads at a time.
/// Errors  buffer_in_flight_read, buffer_in_flight_write: named with the site that started the call.

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
  /// An empty range overlaps none, not even one it lies within.
  bool overlaps(const ByteRange& other) const {
    return std::max(begin, other.begin) < std::min(end, other.end);
  }
  bool operator==(const ByteRange&) const = default;
};

enum class Access { read, write };

class Storage {
 public:
  /// Keeps `device` alive: the one whose tensors use the memory.
  Storage(std::shared_ptr<MemoryPool> pool, std::size_t lane, std::int64_t bytes,
          std::shared_ptr<const void> device = nullptr);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  /// Of the pool: whose memory it is.
  std::size_t lane() const { return lane_; }

  /// Refuses an access that a call in flight forbids. `user` says what wants it: "add", "tp.all_reduce at
  /// ...".
  bool is_free(ByteRange range, Access access) const {
    return (writes_.empty() && (access == Access::read || reads_.empty())) ||
           first_conflict(range, access) == nullptr;
  }
  void check_access(ByteRange range, Access access, const char* user) const {
    if (!is_free(range, access)) refuse_access(range, access, user);
  }
  void take_off(ByteRange range, Access access, const Site& site);
  void land(ByteRange range, Access access);

 private:
  struct Flight {
    ByteRange range;
    Access access;
    Site site;
  };
  using Flights = std::multimap<std::int64_t, Flight>;  // by where they begin
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
