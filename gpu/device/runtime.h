#pragma once

/// The parts of the CUDA runtime that a CUDA device needs: memory, streams, and the order of work on them.
///
/// Calls   Work on a stream runs in the order in which it was put there, and later than the call that put it.
///         Defined for CUDA by gpu/cuda/runtime.cpp. For a GPU played by this machine's processor,
///         gpu/on_host/runtime.cpp defines it, and runs work as late as the order allows.
/// Errors  cuda_unavailable: no GPU of this number, or none that can be used. cuda_failed: a call of CUDA
///         failed; the message names the call and the error. A kernel that fails is reported by a later call.

#include <cstddef>

namespace gpu {

class Stream;

/// Prepares a GPU for use, and refuses one that cannot be used.
void open_gpu(int ordinal);
/// Makes a GPU the target of this thread's next calls.
void use_gpu(int ordinal);

std::byte* allocate(std::size_t bytes);
/// Frees a block, after all work on the GPU is done.
void release(std::byte* block);

Stream* make_stream();
void end_stream(Stream* stream);
/// Blocks this thread until all work of the stream is done.
void wait_for(Stream* stream);
/// Makes work put on `later` from now on run after all work that is on `earlier` now.
void order_after(Stream* later, Stream* earlier);

/// Copies bytes of the host to the GPU. The host may free or change its bytes when the call returns.
void copy_to_gpu(Stream* stream, const void* from, void* to, std::size_t bytes);
/// Copies bytes of the GPU to the host. They have arrived when a later wait_for returns.
void copy_from_gpu(Stream* stream, const void* from, void* to, std::size_t bytes);
void copy_on_gpu(Stream* stream, const void* from, void* to, std::size_t bytes);
void set_bytes(Stream* stream, void* to, int value, std::size_t bytes);

}  // namespace gpu
