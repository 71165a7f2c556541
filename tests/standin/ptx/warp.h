// Runs 32 lanes of a block. Lanes that part wait for those with a smaller program counter, and meet again at the same instruction.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "standin/ptx/copies.h"
#include "standin/ptx/program.h"

namespace ingot::standin::ptx {

class Block;

class Warp {
 public:
  // `registers` points to program.register_bytes, and `local` to 32 * program.local_bytes.
  Warp(Block& block, uint32_t index, std::byte* registers, std::byte* local);

  void Start(uint32_t lanes);
  // Until all lanes wait or have ended, or `budget` instructions.
  void Run(uint64_t budget);
  // Ends the turn after this instruction: a wait has failed.
  void Yield() {
    turn_end_ = 0;
    yielded_ = true;
  }
  bool yielded() const { return yielded_; }

  // Of operands.
  template <typename T>
  const T* In(Slot s) const {
    return reinterpret_cast<const T*>(s.offset + (registers_ & s.mask));
  }
  template <typename T>
  T* Out(Slot s) {
    return reinterpret_cast<T*>(s.offset + (registers_ & s.mask));
  }
  uint32_t Predicate(Slot s) const { return *In<uint32_t>(s); }
  void SetPredicate(Slot d, uint32_t value, uint32_t lanes) {
    uint32_t& bits = *Out<uint32_t>(d);
    bits = (bits & ~lanes) | (value & lanes);
  }
  uint32_t* Carry() { return &carry_; }

  // Of control flow.
  void Branch(uint32_t target, uint32_t lanes);
  // Each lane to targets[index[lane]].
  void BranchEach(const std::vector<uint32_t>& targets, const uint32_t* index, uint32_t lanes);
  void Exit(uint32_t lanes);
  // The lanes wait at a barrier of the block until Release.
  void WaitForBlock(uint32_t id, uint32_t expected_warps, uint32_t lanes);
  // The lanes wait until all of `members` that have not ended do.
  void WaitForLanes(uint32_t members, uint32_t lanes);
  void Release();

  enum class State : uint8_t { kReady, kWaiting, kDone };
  State state() const;
  // Whether all lanes that have not ended wait at one barrier of the block, and which.
  bool WaitsForBlock(uint32_t& id, uint32_t& expected_warps) const;

  Block& block() { return block_; }
  uint32_t index() const { return index_; }
  uint32_t live() const { return live_; }
  uint32_t active() const { return active_; }
  uint32_t statement() const { return at_; }  // index of the instruction that runs
  uint32_t WaitingStatement() const;          // of lanes that wait
  std::byte* local() { return local_; }
  Copies& copies() { return copies_; }
  uint64_t instructions() const { return instructions_; }

  // Reports a fault of the instruction that runs.
  void Fault(const char* kind, int lane, const std::string& what);

 private:
  enum class Wait : uint8_t { kNone, kBlock, kLanes };
  struct Group {
    uint32_t pc = 0;
    uint32_t lanes = 0;
    Wait wait = Wait::kNone;
    uint32_t what = 0;  // the barrier's id, or the members
    uint32_t statement = 0;
  };

  void Park(Wait wait, uint32_t what, uint32_t lanes);
  void Reschedule();
  void ReleaseLanes();

  Block& block_;
  const uint32_t index_;
  const uintptr_t registers_;
  std::byte* const local_;
  const Instruction* code_;
  uint32_t pc_ = 0, next_pc_ = 0;  // of the active lanes, and the least of the others that are ready
  uint32_t active_ = 0, live_ = 0, at_ = 0;
  uint32_t carry_ = 0;
  uint64_t instructions_ = 0, turn_end_ = 0;
  bool yielded_ = false;
  std::vector<Group> groups_;  // of lanes that are not active
  Copies copies_;
};

}  // namespace ingot::standin::ptx
