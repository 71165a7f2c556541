// Branches and ends.
#include "standin/ptx/block.h"
#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

void Branch(Warp& w, const Instruction& in, uint32_t lanes) { w.Branch(in.target, lanes); }
void Exit(Warp& w, const Instruction&, uint32_t lanes) { w.Exit(lanes); }

void Trap(Warp& w, const Instruction&, uint32_t lanes) {
  w.Fault("trap", __builtin_ctz(lanes), "the kernel ends itself");
  throw EndLaunch();
}

bool DecodeBranch(Decoder& d, const Statement& s, Instruction& in) {
  in.execute = Branch;
  in.target = d.Target(s.operands.at(0));
  return true;
}

// One branch for each target that a lane takes.
void BranchByIndex(Warp& w, const Instruction& in, uint32_t lanes) {
  const std::vector<uint32_t>& targets = w.block().launch().program.targets[in.immediate];
  const uint32_t* const index = w.In<uint32_t>(in.a);
  uint32_t outside = 0;
  ForLanes(lanes, [&](int lane) {
    if (index[lane] < targets.size()) return;
    w.Fault("bounds", lane, "label " + std::to_string(index[lane]) + " of " + std::to_string(targets.size()));
    outside |= 1u << lane;
  });
  if (outside != 0) throw EndLaunch();
  w.BranchEach(targets, index, lanes);
}

// brx.idx index, targets
bool DecodeBranchByIndex(Decoder& d, const Statement& s, Instruction& in) {
  in.a = d.In(s.operands.at(0), Type::kB32);
  in.immediate = d.Targets(s.operands.at(1));
  in.execute = BranchByIndex;
  return true;
}

bool DecodeExit(Decoder&, const Statement&, Instruction& in) {
  in.execute = Exit;
  return true;
}

bool DecodeTrap(Decoder&, const Statement&, Instruction& in) {
  in.execute = Trap;
  return true;
}

void Nothing(Warp&, const Instruction&, uint32_t) {}

bool DecodeNothing(Decoder&, const Statement&, Instruction& in) {
  in.execute = Nothing;
  return true;
}

}  // namespace

std::span<const Rule> ControlRules() {
  static constexpr Rule kRules[] = {{"bra", DecodeBranch}, {"brx", DecodeBranchByIndex}, {"exit", DecodeExit},
                                    {"trap", DecodeTrap},  {"nanosleep", DecodeNothing}, {"brkpt", DecodeNothing}};
  return kRules;
}

}  // namespace ingot::standin::ptx
