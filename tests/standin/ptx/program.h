// A kernel decoded for execution: one Instruction per PTX instruction, with a function that runs it over 32 lanes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "standin/ptx/syntax.h"

namespace ingot::standin::ptx {

class Warp;
struct Instruction;

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffff;

// Bit i of `lanes` is set if lane i takes part.
using Execute = void (*)(Warp& warp, const Instruction& instruction, uint32_t lanes);

// The 32 values of an operand, lane after lane: a register at `offset` of the warp's file (mask = all ones), or a constant at the address
// `offset` (mask = 0). A predicate is one word with a bit per lane.
struct Slot {
  uintptr_t offset = 0;
  uintptr_t mask = 0;
};

// A register with the width that it was declared with, for instructions that accept wider ones.
struct WideSlot : Slot {
  uint8_t bytes = 0;
};

struct Instruction {
  Execute execute = nullptr;
  Slot d, a, b, c;
  Slot guard;
  uint32_t guard_flip = 0;  // all ones for `@!p`
  bool guarded = false;
  bool flag = false;               // meaning by instruction, like `flip`, `immediate` and `list`
  uint8_t size = 0;                // bytes of an element in memory
  Space space = Space::kGeneric;   // of `a`, an address
  uint32_t flip = 0;               // all ones if the predicate operand is negated
  uint32_t target = 0;             // of a branch
  int64_t immediate = 0;           // added to an address; a lookup table, a mode
  const WideSlot* list = nullptr;  // vectors
  uint32_t count = 0;              // of list
  uint32_t statement = 0;          // index in Program::statements
};

struct alignas(64) Constant {
  std::array<uint64_t, kLanes> values;
};

// A kernel's code. A function that it calls has a copy in it for each call, so that a smaller program counter is always earlier in the
// source, and lanes that part in a function meet at its end.
struct Program {
  std::vector<Instruction> code;              // the last one ends the lanes that reach it
  std::vector<const Statement*> statements;   // that the instructions come from
  std::deque<std::vector<uint32_t>> targets;  // of brx.idx
  size_t register_bytes = 0;                  // of a warp
  size_t static_shared_bytes = 0;
  size_t dynamic_shared_at = 0;
  std::map<const VariableSyntax*, uint64_t> shared;  // addresses
  size_t local_bytes = 0;                            // of a lane
  size_t parameter_bytes = 0;
  std::deque<Constant> constants;
  std::deque<std::vector<WideSlot>> lists;
  std::vector<std::string> errors;  // of instructions that are not built, which end a launch that reaches them
};

// Registers that every warp has at the start of its file, 128 bytes each.
enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLane,
  kWarp,
  kWarps,
  kSm,
  kSms,
  kMaskEq,
  kMaskLt,
  kMaskLe,
  kMaskGt,
  kMaskGe,
  kDynamicShared,
  kTotalShared,
  kZero,
  kCount,
};

inline constexpr size_t kSpecialBytes = 4 * kLanes;

}  // namespace ingot::standin::ptx
