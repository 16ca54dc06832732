#pragma once

/// The memory behind one or more tensors, with a record of the communication calls that have parts of it
/// in flight. Between the start of a call and the return of its wait(), nobody may write what the call
/// reads, nor read or write what it writes. A storage may have a size and no memory: its elements then do
/// not exist (sim/shapes).
///
/// Shapes  ranges are in bytes from the start of the storage.
/// Calls   a storage belongs to one rank: two threads never touch it at the same time.
/// Errors  buffer_in_flight_read, buffer_in_flight_write: the refusal names the site that started the
///         call. no_elements: data() of a storage without memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

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

/// Refuses to read elements that do not exist (no_elements). `user` names the operation.
[[noreturn]] void refuse_no_elements(const char* user, std::int64_t bytes);

class Storage {
 public:
  /// Keeps `device` alive, which is the device whose tensors use the memory, and which keeps the pool alive.
  /// Without a device it keeps the pool alive itself.
  Storage(const std::shared_ptr<MemoryPool>& pool, std::size_t lane, std::int64_t bytes,
          std::shared_ptr<const void> device = nullptr);
  /// Makes a storage without memory.
  Storage(std::int64_t bytes, std::shared_ptr<const void> device);
  /// Makes a storage of memory that its owner lends.
  Storage(std::span<std::byte> lent, std::shared_ptr<const void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const {
    if (data_ == nullptr) refuse_no_elements("Tensor::data", bytes_);
    return data_;
  }
  bool has_memory() const { return data_ != nullptr; }
  /// Takes memory for a storage that has none. It contains whatever the last user of the block left.
  void take_memory(const std::shared_ptr<MemoryPool>& pool, std::size_t lane);
  /// Gives the memory back, if there is any.
  void drop_memory();
  std::int64_t bytes() const { return bytes_; }
  /// Returns the lane of the pool from which the memory came.
  std::size_t lane() const { return lane_; }

  bool has_no_flights() const { return flights_ == nullptr; }
  /// True if no call in flight forbids the access.
  bool is_free(ByteRange range, Access access) const {
    return flights_ == nullptr || first_conflict(range, access) == nullptr;
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
  using ByBegin = std::multimap<std::int64_t, Flight>;  // keyed by the begin of the range
  struct Flights {
    ByBegin reads, writes;
    std::int64_t longest = 0;
    ByBegin& of(Access access) { return access == Access::read ? reads : writes; }
  };
  static const Flight* first_overlap(const ByBegin& flights, std::int64_t longest, ByteRange range);
  const Flight* first_conflict(ByteRange range, Access access) const;
  [[noreturn]] void refuse_access(ByteRange range, Access access, const char* user) const;

  // What every call reads comes first, so that it lies in one line of the cache.
  std::byte* data_;
  std::unique_ptr<Flights> flights_;   // null if no call is in flight, as for most storages
  std::shared_ptr<const void> owner_;  // the device, or the pool where there is no device
  MemoryPool* pool_;                   // null if the memory is lent, or if there has never been any
  std::size_t lane_;
  std::int64_t bytes_;
};

}  // namespace sim
