#include "standin/runtime/kernels.h"

#include "standin/runtime/device.h"
#include "standin/runtime/fatbin.h"
#include "standin/runtime/memory.h"
#include "standin/runtime/settings.h"

namespace ingot::standin {

Binary* Kernels::AddBinary(const void* fatbin) {
  auto* binary =
      new Binary;  // lives as long as the process: its library may be closed while its kernels wait in a stream
  binary->fatbin = fatbin;
  return binary;
}

void Kernels::AddFunction(Binary* binary, const void* host, const char* name) {
  const std::lock_guard lock(mu_);
  auto& function = functions_[host];
  function = std::make_unique<Function>();
  function->binary = binary;
  function->name = name;
}

void Kernels::AddSymbol(Binary* binary, const void* host, const char* name) {
  const std::lock_guard lock(mu_);
  symbols_[host] = {binary, name};
}

Function* Kernels::Find(const void* host) {
  const std::lock_guard lock(mu_);
  const auto found = functions_.find(host);
  return found == functions_.end() ? nullptr : found->second.get();
}

const ptx::Variable* Kernels::Variable(const void* host) {
  Symbol symbol;
  {
    const std::lock_guard lock(mu_);
    const auto found = symbols_.find(host);
    if (found == symbols_.end()) return nullptr;
    symbol = found->second;
  }
  const ptx::Module* module = Load(*symbol.binary);
  return module == nullptr ? nullptr : module->FindVariable(symbol.name);
}

ptx::Module* Kernels::Load(Binary& binary) {
  const std::lock_guard lock(mu_);
  const auto [entry, fresh] = binary.modules.try_emplace(CurrentDevice());
  if (!fresh) return entry->second.get();
  const auto text = FindPtx(FatbinAt(binary.fatbin), GetSettings().capability);
  if (!text.has_value()) return nullptr;
  try {
    entry->second = ptx::Module::Load(*text, GetMemory());
  } catch (const ptx::Error& error) {
    Die("cannot load PTX: %s", error.what());
  }
  return entry->second.get();
}

Kernels& GetKernels() {
  static auto* kernels = new Kernels;
  return *kernels;
}

}  // namespace ingot::standin

using namespace ingot::standin;

// What nvcc's host code calls (crt/host_runtime.h).
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
  struct Wrapper {  // __fatBinC_Wrapper_t
    int mark, version;
    const void* data;
    void* file;
  };
  return reinterpret_cast<void**>(GetKernels().AddBinary(static_cast<const Wrapper*>(wrapper)->data));
}

void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void** binary, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  GetKernels().AddFunction(reinterpret_cast<Binary*>(binary), host, name);
}

void __cudaRegisterVar(void** binary, char* host, char*, const char* name, int, size_t, int, int) {
  GetKernels().AddSymbol(reinterpret_cast<Binary*>(binary), host, name);
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  Function* function = GetKernels().Find(host);
  *kernel = reinterpret_cast<cudaKernel_t>(function);
  return function == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
}

}  // extern "C"

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  const ptx::Variable* variable = GetKernels().Variable(symbol);
  if (variable == nullptr) return Fail(cudaErrorInvalidSymbol, "no such symbol, or its library has no PTX");
  *pointer = reinterpret_cast<void*>(variable->address);
  return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
  void* to = nullptr;
  if (const cudaError_t error = cudaGetSymbolAddress(&to, symbol); error != cudaSuccess) return error;
  return cudaMemcpy(static_cast<std::byte*>(to) + offset, from, bytes, kind);
}
