#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "standin/ptx/machine.h"

// The fat binaries, kernels and variables that libraries register when they are loaded. A binary's PTX is parsed when one of its kernels or
// variables is first used, once per device, since most of the tens of thousands that torch registers never are.
namespace ingot::standin {

struct Binary {
  const void* fatbin = nullptr;
  std::map<int, std::unique_ptr<ptx::Module>> modules;  // by device
};

// A kernel's host function and what cudaFuncSetAttribute has set.
struct Function {
  Binary* binary = nullptr;
  const char* name = nullptr;
  size_t dynamic_shared_bytes = 0;  // the most that a launch may ask for; 0 = not set
};

struct Symbol {
  Binary* binary = nullptr;
  const char* name = nullptr;
};

// Thread-safe.
class Kernels {
 public:
  Binary* AddBinary(const void* fatbin);
  void AddFunction(Binary* binary, const void* host, const char* name);
  void AddSymbol(Binary* binary, const void* host, const char* name);

  Function* Find(const void* host);                 // null if nobody registered it
  const ptx::Variable* Variable(const void* host);  // null likewise, or if its binary has no PTX

  // The binary's module on the calling thread's device, or null if it has no PTX for it. Ends the process if the machine rejects the PTX.
  ptx::Module* Load(Binary& binary);

 private:
  std::mutex mu_;
  std::unordered_map<const void*, std::unique_ptr<Function>> functions_;  // guarded by mu_, as all below
  std::unordered_map<const void*, Symbol> symbols_;
};

Kernels& GetKernels();

// Checks a launch as the driver does, copies its parameters, and queues it.
cudaError_t Launch(Function* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                   cudaStream_t stream);

}  // namespace ingot::standin
