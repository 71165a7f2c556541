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
  static constexpr Rule kRules[] = {{"bra", DecodeBranch}, {"ret", DecodeExit},          {"exit", DecodeExit},
                                    {"trap", DecodeTrap},  {"nanosleep", DecodeNothing}, {"brkpt", DecodeNothing}};
  return kRules;
}

}  // namespace ingot::standin::ptx
