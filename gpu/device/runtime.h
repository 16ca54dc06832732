#pragma once

/// What a CUDA device needs of the CUDA runtime: memory, streams, and the order of work on them.
///
/// Calls   work on a stream is done in its order, later than the call that puts it there. Defined for CUDA by
///         gpu/cuda/runtime.cpp; for a GPU that is played by this machine's processor, as late as it may be,
///         by gpu/on_host/runtime.cpp.
/// Errors  cuda_unavailable: no GPU of this number, or none that can be used. cuda_failed: a call of CUDA
///         failed, with its name and that of the error. A kernel that fails is reported by a call after it.

#include <cstddef>

#include "gpu/device/kernels.h"

namespace gpu {

/// Refuses a GPU that cannot be used.
void open_gpu(int ordinal);
/// The one that this thread's next calls are about.
void use_gpu(int ordinal);

std::byte* allocate(std::size_t bytes);
/// When all work is done.
void release(std::byte* block);

Stream* make_stream();
void end_stream(Stream* stream);
/// This thread goes on when all work of the stream is done.
void wait_for(Stream* stream);
/// What is put on `later` from now on comes after all that is on `earlier` now.
void order_after(Stream* later, Stream* earlier);

/// The host's bytes may go when it returns.
void copy_to_gpu(Stream* stream, const void* from, void* to, std::size_t bytes);
/// The host's bytes are there after wait_for.
void copy_from_gpu(Stream* stream, const void* from, void* to, std::size_t bytes);
void copy_on_gpu(Stream* stream, const void* from, void* to, std::size_t bytes);
void set_bytes(Stream* stream, void* to, int value, std::size_t bytes);

}  // namespace gpu
