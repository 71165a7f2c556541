#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Interprets the PTX that nvcc made, 32 lanes at a time, and checks what it does: bounds, alignment, races in shared memory, copies that have
// not arrived, barriers that part of a block reaches. It serves the stand-in of the CUDA runtime (tests/standin/runtime), and tests of kernels.
// Needs nothing but the standard library, since it is loaded before every other library of a process.
namespace ingot::standin::ptx {

// What PTX ISA (https://docs.nvidia.com/cuda/parallel-thread-execution) does not allow, or this machine does not know: the message names the
// module's line and the instruction.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

struct Launch {
  Dim3 grid;
  Dim3 block;
  size_t dynamic_shared_bytes = 0;
};

// The device's memory: which addresses hold something, and where the machine may touch it.
class Memory {
 public:
  virtual ~Memory() = default;

  // Host address of [address, address + bytes), or null where no single live allocation holds all of it.
  virtual std::byte* At(uint64_t address, size_t bytes) = 0;

  // Device memory for a module's `.global` and `.const` variables, filled with zeros; it lives as long as the module.
  virtual uint64_t Allocate(size_t bytes, size_t alignment) = 0;
};

// When a `cp.async` lands: the latest time that its group's wait allows, at once, or either by the seed.
enum class Arrival { kLate, kEarly, kRandom };

// How `mma` adds the products of its depth: fp32 ascending, or as a published model of the A100's tensor cores does (matrix_sum.h).
enum class SumOrder { kAscending, kTensorCore };

struct Options {
  uint64_t seed = 0;  // of the order in which warps run
  Arrival arrival = Arrival::kLate;
  bool empty_copies_land =
      false;  // a `cp.async` that reads nothing writes its zeros at once: no memory is read for it, and CUTLASS counts on it
  SumOrder sum = SumOrder::kAscending;
  bool check_races = true;   // races in shared memory, copies that have not arrived, output that two blocks write
  bool count_memory = true;  // wavefronts, global bytes and sectors of the counters
  bool approximate =
      false;  // ex2, lg2, rcp, rsqrt, sin, cos.approx are off by up to two units in the last place, by a hash of the input
  size_t max_reports = 16;          // a launch ends after so many reports; an instruction reports a kind of fault once
  uint64_t block_instructions = 0;  // of warps, after which a block is reported as endless; 0 = no limit
};

// One fault that a launch committed.
struct Report {
  std::string kind;  // "race", "bounds", "alignment", "not arrived", "deadlock", "partial warp", ...
  std::string text;  // kernel, block, warp, line and instruction, and what was wrong
};

// What a launch did, over all its blocks.
struct Counters {
  uint64_t instructions = 0;      // of warps
  uint64_t wavefronts = 0;        // of shared memory
  uint64_t ideal_wavefronts = 0;  // the least that the same accesses allow
  uint64_t global_bytes = 0;      // asked for by loads and stores of global memory
  uint64_t global_sectors = 0;    // 32-byte sectors that they touched
};

struct Outcome {
  std::vector<Report> reports;
  Counters counters;
};

// A kernel's parameter as it lies in the block that cudaLaunchKernel copies.
struct Parameter {
  size_t offset = 0;
  size_t bytes = 0;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  size_t static_shared_bytes = 0;
  unsigned max_threads = 1024;  // .maxntid
  unsigned min_blocks = 0;      // .minnctapersm; 0 = not given
  unsigned max_registers = 0;   // .maxnreg; 0 = not given
  unsigned registers = 0;       // declared, all types; 32-bit units
};

struct Variable {
  std::string name;
  uint64_t address = 0;
  size_t bytes = 0;
};

// A translation unit's PTX, ready to run. Launches of one module may run at the same time in several threads.
class Module {
 public:
  // Parses `text`, and allocates and fills its variables in `memory`, which must outlive the module. Throws Error.
  static std::unique_ptr<Module> Load(std::string_view text, Memory& memory);
  virtual ~Module() = default;

  virtual const Kernel* FindKernel(std::string_view name) const = 0;      // null if there is none
  virtual const Variable* FindVariable(std::string_view name) const = 0;  // null if there is none

  // Runs all blocks of `kernel` (of this module) to their end, in the calling thread. `parameters` holds parameter_bytes. Throws Error for an
  // instruction that is not built; what the kernel itself does wrong is in the outcome.
  virtual Outcome Run(const Kernel& kernel, const Launch& launch, std::span<const std::byte> parameters,
                      const Options& options) = 0;
};

}  // namespace ingot::standin::ptx
