#include "standin/runtime/operators_loader.h"

#include <dlfcn.h>

#include <atomic>
#include <string>

#include "standin/runtime/memory.h"
#include "standin/runtime/settings.h"
#include "standin/runtime/standin.h"

namespace ingot::standin {

void LoadOperators() {
  static std::atomic<bool> loaded{false};
  if (loaded || ::dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD) == nullptr || loaded.exchange(true)) return;
  Dl_info here;
  if (::dladdr(reinterpret_cast<void*>(&LoadOperators), &here) == 0) Die("dladdr does not know the stand-in");
  const std::string self = here.dli_fname;
  const std::string path = self.substr(0, self.rfind('/') + 1) + "libstandin_operators.so";
  if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) Die("cannot open %s: %s", path.c_str(), ::dlerror());
}

}  // namespace ingot::standin

void* ingot_standin_reach(const void* pointer) {
  return ingot::standin::GetMemory().Reach(reinterpret_cast<uint64_t>(pointer));
}
