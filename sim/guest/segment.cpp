#include "sim/guest/segment.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
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

Segment::~Segment() {
  if (!mapped_.empty()) munmap(mapped_.data(), mapped_.size());
}

void Segment::map_again() {
  if (fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    refuse_memory(fmt::format("the segment cannot be sealed: {}", std::strerror(errno)));
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0) refuse_memory(fmt::format("no size: {}", std::strerror(errno)));
  if (!mapped_.empty()) munmap(mapped_.data(), mapped_.size());
  mapped_ = {};
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes == 0) return;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED)
    refuse_memory(fmt::format("{} bytes cannot be mapped: {}", bytes, std::strerror(errno)));
  mapped_ = {static_cast<std::byte*>(memory), bytes};
}

std::span<std::byte> Segment::part(std::int64_t offset, std::int64_t bytes) {
  const auto lies_outside = [&] {
    const auto size = static_cast<std::int64_t>(mapped_.size());
    return offset < 0 || bytes < 0 || offset > size || bytes > size - offset;
  };
  if (lies_outside()) map_again();
  if (lies_outside())
    refuse_memory(fmt::format("{} bytes at {} of a segment of {}", bytes, offset, mapped_.size()));
  return mapped_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
}

}  // namespace sim
