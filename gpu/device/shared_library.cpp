#include "gpu/device/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <utility>

#include "sim/base/check.h"

namespace gpu {

SharedLibrary::SharedLibrary(const char* name, const char* path, Refuse refuse)
    : name_(name), refuse_(std::move(refuse)), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const std::string problem = dlerror();
  handle_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) refuse_(fmt::format("it cannot be loaded ({})", problem));
}

void* SharedLibrary::address_of(const char* function) const {
  void* const address = dlsym(handle_, function);
  if (address == nullptr) refuse_(fmt::format("{} has no function {}", name_, function));
  SIM_CHECK(address != nullptr && "`refuse` throws");
  return address;
}

}  // namespace gpu
