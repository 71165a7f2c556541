// A kernel from a few lines of PTX, for tests of the machine.
#pragma once

#include <string>

#include "standin/ptx/test_memory.h"

namespace ingot::standin::ptx {

// The kernel `k`, with five 64-bit parameters (p0 to p4, loaded into %rd0 to %rd4) and the thread's index in %r0.
inline std::string KernelText(const std::string& body, const std::string& declarations = "") {
  return R"(.version 9.0
.target sm_80
.address_size 64
)" + declarations +
         R"(
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4) {
.reg .pred %p<32>;
.reg .b16 %h<32>;
.reg .b32 %r<64>;
.reg .f32 %f<64>;
.reg .f64 %fd<32>;
.reg .b64 %rd<64>;
ld.param.u64 %rd0, [p0];
ld.param.u64 %rd1, [p1];
ld.param.u64 %rd2, [p2];
ld.param.u64 %rd3, [p3];
ld.param.u64 %rd4, [p4];
mov.u32 %r0, %tid.x;
)" + body +
         "\nret;\n}\n";
}

// Runs the kernel `k` of `text` with up to five parameters.
inline Outcome RunText(const std::string& text, TestMemory& memory, std::vector<uint64_t> parameters,
                       const Launch& launch = {{1, 1, 1}, {32, 1, 1}, 0}, const Options& options = {}) {
  const std::unique_ptr<Module> module = Module::Load(text, memory);
  parameters.resize(5);
  return module->Run(*module->FindKernel("k"), launch, std::as_bytes(std::span<const uint64_t>(parameters)), options);
}

// The kinds of its reports, with commas between.
inline std::string Kinds(const Outcome& outcome) {
  std::string kinds;
  for (const Report& r : outcome.reports) kinds += (kinds.empty() ? "" : ",") + r.kind;
  return kinds;
}

}  // namespace ingot::standin::ptx
