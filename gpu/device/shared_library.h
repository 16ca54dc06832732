#pragma once

/// A library of the system that is loaded when it is asked for, and not with the program: cuBLAS and NCCL,
/// whose loading costs every command 60 ms and 200 MB.
///
///   const SharedLibrary nccl("libnccl.so.2", "/usr/local/cuda/lib/libnccl.so.2", refuse);
///   const auto get_version = nccl.find<decltype(ncclGetVersion)>("ncclGetVersion");
///
/// Calls   The name is searched as the dynamic loader does: LD_LIBRARY_PATH, the folders of the program, the
///         system's folders. Then comes the path at which CMake found the library. It is never unloaded.
/// Errors  those of `refuse`, which is called with what is wrong: the library cannot be loaded, or it has no
///         function of this name, because its version is too old.

#include <functional>
#include <string>

namespace gpu {

class SharedLibrary {
 public:
  using Refuse = std::function<void(const std::string& problem)>;  // throws

  SharedLibrary(const char* name, const char* path, Refuse refuse);
  /// Returns a function of the library. `Function` is its type.
  template <typename Function>
  Function* find(const char* function) const {
    return reinterpret_cast<Function*>(address_of(function));
  }

 private:
  void* address_of(const char* function) const;

  std::string name_;
  Refuse refuse_;
  void* handle_ = nullptr;
};

}  // namespace gpu
