#include "standin/ptx/warp.h"

#include <algorithm>

#include "standin/ptx/block.h"

namespace ingot::standin::ptx {
namespace {

constexpr uint32_t kNever = 0xffffffff;
constexpr uint32_t kIdBits = 8;

}  // namespace

Warp::Warp(Block& block, uint32_t index, std::byte* registers, std::byte* local)
    : block_(block),
      index_(index),
      registers_(reinterpret_cast<uintptr_t>(registers)),
      local_(local),
      code_(block.launch().program.code.data()) {}

void Warp::Start(uint32_t lanes) {
  live_ = active_ = lanes;
  pc_ = 0;
  next_pc_ = kNever;
  groups_.clear();
  copies_.Clear();
}

void Warp::Run(uint64_t budget) {
  if (active_ == 0) Reschedule();
  turn_end_ = instructions_ + budget;
  yielded_ = false;
  while (active_ != 0 && instructions_ < turn_end_) {
    const Instruction& in = code_[pc_];
    at_ = in.statement;
    uint32_t lanes = active_;
    if (in.guarded) lanes &= Predicate(in.guard) ^ in.guard_flip;
    ++pc_;
    ++instructions_;
    if (lanes != 0) in.execute(*this, in, lanes);
    if (pc_ >= next_pc_) Reschedule();
  }
}

// Makes the ready lanes with the least program counter active.
void Warp::Reschedule() {
  if (active_ != 0) groups_.push_back({pc_, active_, Wait::kNone, 0, 0});
  active_ = 0;
  uint32_t least = kNever;
  for (const Group& g : groups_) {
    if (g.wait == Wait::kNone) least = std::min(least, g.pc);
  }
  pc_ = least;
  next_pc_ = kNever;
  std::erase_if(groups_, [&](const Group& g) {
    if (g.wait != Wait::kNone) return false;
    if (g.pc != least) {
      next_pc_ = std::min(next_pc_, g.pc);
      return false;
    }
    active_ |= g.lanes;
    return true;
  });
}

void Warp::Branch(uint32_t target, uint32_t lanes) {
  if (lanes == active_) {
    pc_ = target;
    return;
  }
  active_ &= ~lanes;
  groups_.push_back({target, lanes, Wait::kNone, 0, 0});
  Reschedule();
}

void Warp::BranchEach(const std::vector<uint32_t>& targets, const uint32_t* index, uint32_t lanes) {
  active_ &= ~lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lanes >> lane & 1) groups_.push_back({targets[index[lane]], 1u << lane, Wait::kNone, 0, 0});
  }
  Reschedule();
}

void Warp::Exit(uint32_t lanes) {
  live_ &= ~lanes;
  active_ &= ~lanes;
  ReleaseLanes();
  if (active_ == 0) Reschedule();
}

void Warp::Park(Wait wait, uint32_t what, uint32_t lanes) {
  active_ &= ~lanes;
  groups_.push_back({pc_, lanes, wait, what, at_});
}

void Warp::WaitForBlock(uint32_t id, uint32_t expected_warps, uint32_t lanes) {
  Park(Wait::kBlock, id | expected_warps << kIdBits, lanes);
  if (active_ == 0) Reschedule();
}

void Warp::WaitForLanes(uint32_t members, uint32_t lanes) {
  Park(Wait::kLanes, members, lanes);
  ReleaseLanes();
  Reschedule();
}

// Lets lanes continue that wait for others, if all of their members do.
void Warp::ReleaseLanes() {
  for (const Group& first : groups_) {
    if (first.wait != Wait::kLanes) continue;
    const uint32_t members = first.what;
    uint32_t waiting = 0;
    for (const Group& g : groups_) {
      if (g.wait == Wait::kLanes && g.what == members) waiting |= g.lanes;
    }
    if ((members & live_ & ~waiting) != 0) continue;
    for (Group& g : groups_) {
      if (g.wait == Wait::kLanes && g.what == members) g.wait = Wait::kNone;
    }
    if (Races* const races = block_.races()) races->SyncLanes(index_, members, (live_ & ~members) == 0);
  }
}

void Warp::Release() {
  for (Group& g : groups_) {
    if (g.wait == Wait::kBlock) g.wait = Wait::kNone;
  }
}

Warp::State Warp::state() const {
  if (live_ == 0) return State::kDone;
  if (active_ != 0) return State::kReady;
  for (const Group& g : groups_) {
    if (g.wait == Wait::kNone) return State::kReady;
  }
  return State::kWaiting;
}

bool Warp::WaitsForBlock(uint32_t& id, uint32_t& expected_warps) const {
  if (active_ != 0 || groups_.empty()) return false;
  for (const Group& g : groups_) {
    if (g.wait != Wait::kBlock || g.what != groups_[0].what) return false;
  }
  id = groups_[0].what & ((1u << kIdBits) - 1);
  expected_warps = groups_[0].what >> kIdBits;
  return true;
}

uint32_t Warp::WaitingStatement() const { return groups_.empty() ? at_ : groups_[0].statement; }

void Warp::Fault(const char* kind, int lane, const std::string& what) {
  block_.launch().Report(kind, at_, block_.Where(*this, lane), what);
}

}  // namespace ingot::standin::ptx
