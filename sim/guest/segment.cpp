#include "sim/guest/segment.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <span>
#include <sys/mman.h>
#include <sys/stat.h>

#include "sim/base/error.h"

namespace sim {

namespace {

[[noreturn]] void refuse_memory(std::string numbers) {
  refuse(
      {.code = "guest_memory",
       .option = "the memory of its process",
       .numbers = std::move(numbers),
       .rule = "what a guest gives and takes lies in the memory that it shares",
       .hint = "the client of this version, or fewer ranks where the memory of this machine is at its end"});
}

}  // namespace

class Segment::Mapping {
 public:
  Mapping(int descriptor, std::int64_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* memory = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED)
      refuse_memory(fmt::format("{} bytes cannot be mapped: {}", bytes, std::strerror(errno)));
    memory_ = static_cast<std::byte*>(memory);
  }
  ~Mapping() {
    if (memory_ != nullptr) munmap(memory_, size());
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool holds(const GuestTensor& where) const {
    return where.offset >= 0 && where.bytes() >= 0 && where.offset <= bytes_ &&
           where.bytes() <= bytes_ - where.offset;
  }
  std::int64_t bytes() const { return bytes_; }
  std::byte* at(std::int64_t offset) const { return memory_ + offset; }

 private:
  std::size_t size() const { return static_cast<std::size_t>(bytes_); }

  std::byte* memory_ = nullptr;
  std::int64_t bytes_;
};

void Segment::map_again() {
  if (fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    refuse_memory(fmt::format("the segment cannot be sealed: {}", std::strerror(errno)));
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0) refuse_memory(fmt::format("no size: {}", std::strerror(errno)));
  mapping_ = std::make_shared<const Mapping>(descriptor_, status.st_size);
}

Tensor Segment::tensor(Device& device, const GuestTensor& where) {
  if (mapping_ == nullptr || !mapping_->holds(where)) map_again();
  if (!mapping_->holds(where))
    refuse_memory(
        fmt::format("{} bytes at {} of a segment of {}", where.bytes(), where.offset, mapping_->bytes()));
  if (where.offset % size_of(where.dtype) != 0)
    refuse_memory(fmt::format("{} at {}, in the middle of an element", name_of(where.dtype), where.offset));
  const std::span part(mapping_->at(where.offset), static_cast<std::size_t>(where.bytes()));
  return {device, where.dtype, {where.count}, std::make_shared<Storage>(part, mapping_)};
}

}  // namespace sim
