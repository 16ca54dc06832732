// This file implements a GPU played by this machine's processor. With it, tests cover everything of the
// CUDA device except CUDA itself.

#include "gpu/device/runtime.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "gpu/device/kernels.h"
#include "gpu/device/refusals.h"
#include "gpu/on_host/stream.h"

namespace gpu {

namespace {

/// The largest block that this GPU allocates, in bytes. It refuses larger ones as CUDA does when memory is
/// full.
constexpr std::size_t kMemory = std::size_t{1} << 36;

/// The mutex that lets one thread at once use the streams.
std::recursive_mutex& turn() {
  static std::recursive_mutex mutex;
  return mutex;
}

std::set<Stream*>& streams() {
  static std::set<Stream*> all;
  return all;
}

}  // namespace

void Stream::put(std::function<void()> work) {
  const std::lock_guard lock(turn());
  waiting_.push_back(std::move(work));
}

std::int64_t Stream::position() const {
  const std::lock_guard lock(turn());
  return done_ + std::ssize(waiting_);
}

void Stream::finish_until(std::int64_t position) {
  const std::lock_guard lock(turn());
  while (done_ < position) {
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    ++done_;
    work();
  }
}

void Stream::finish() { finish_until(position()); }

void open_gpu(int ordinal) {
  if (ordinal != 0) refuse_unavailable(ordinal, "1 GPU, played by this machine's processor", "device 0");
}

void use_gpu(int) {}

std::byte* allocate(std::size_t bytes) {
  if (bytes > kMemory) refuse_failed("cudaMalloc", "cudaErrorMemoryAllocation", "out of memory");
  return new std::byte[bytes];
}

void release(std::byte* block) {
  const std::lock_guard lock(turn());
  for (Stream* stream : streams()) stream->finish();
  delete[] block;
}

Stream* make_stream() {
  const std::lock_guard lock(turn());
  auto* stream = new Stream;
  streams().insert(stream);
  return stream;
}

void end_stream(Stream* stream) {
  const std::lock_guard lock(turn());
  stream->finish();
  streams().erase(stream);
  delete stream;
}

void wait_for(Stream* stream) { stream->finish(); }

void order_after(Stream* later, Stream* earlier) {
  later->put([earlier, position = earlier->position()] { earlier->finish_until(position); });
}

void copy_to_gpu(Stream* stream, const void* from, void* to, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  stream->put([to, kept = std::vector<std::byte>(first, first + bytes)] {
    if (!kept.empty()) std::memcpy(to, kept.data(), kept.size());
  });
}

void copy_from_gpu(Stream* stream, const void* from, void* to, std::size_t bytes) {
  copy_on_gpu(stream, from, to, bytes);
}

void copy_on_gpu(Stream* stream, const void* from, void* to, std::size_t bytes) {
  stream->put([=] {
    if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
  });
}

void set_bytes(Stream* stream, void* to, int value, std::size_t bytes) {
  stream->put([=] {
    if (bytes > 0) std::memset(to, value, bytes);
  });
}

/// This GPU has no vendor's library. Its own product takes the library's place.
class Vendor {
 public:
  Stream* stream = nullptr;
};

void load_vendor() {}
Vendor* make_vendor(Stream* stream) { return new Vendor{stream}; }
void end_vendor(Vendor* vendor) { delete vendor; }

void vendor_matmul(Vendor* vendor, const Tensor& a, const Tensor& b, sim::MatmulParameters form,
                   const Tensor& out) {
  matmul(vendor->stream, a, b, form, out);
}

}  // namespace gpu
