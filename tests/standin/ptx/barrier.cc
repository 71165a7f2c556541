// Barriers of blocks and warps, and fences. A fence orders nothing here: lanes and warps run one after the other, and only barriers carry
// order for the check of races.
#include <bit>

#include "standin/ptx/block.h"
#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

constexpr uint32_t kBarriers = 16;

struct Request {
  uint32_t id, expected_warps;
};

// bar id, threads: both may be registers, with one value for the whole warp.
bool ReadRequest(Warp& w, const Instruction& in, uint32_t lanes, Request& request) {
  const int lane = std::countr_zero(lanes);
  request.id = w.In<uint32_t>(in.a)[lane];
  const uint32_t threads = in.flag ? w.In<uint32_t>(in.b)[lane] : 0;
  request.expected_warps = threads / kLanes;
  if (request.id >= kBarriers || threads % kLanes != 0 || (in.flag && threads == 0)) {
    w.Fault("barrier", lane,
            "barrier " + std::to_string(request.id) + " for " + std::to_string(threads) +
                " threads: there are 16 barriers, for multiples of 32 threads");
    return false;
  }
  // in.size: .aligned, where all lanes must be together.
  if (in.size != 0 && lanes != w.live()) {
    w.Fault("partial warp", std::countr_zero(w.live() & ~lanes),
            "the lane does not reach the barrier together with its warp");
  }
  return true;
}

void Sync(Warp& w, const Instruction& in, uint32_t lanes) {
  Request r;
  if (ReadRequest(w, in, lanes, r)) w.WaitForBlock(r.id, r.expected_warps, lanes);
}

void Arrive(Warp& w, const Instruction& in, uint32_t lanes) {
  Request r;
  if (ReadRequest(w, in, lanes, r)) w.block().Arrive(w, r.id, r.expected_warps);
}

void Reduce(Warp& w, const Instruction& in, uint32_t lanes) {
  Request r;
  if (!ReadRequest(w, in, lanes, r)) return;
  w.block().Reduce(w, in, r.id, w.Predicate(in.c) ^ in.flip, lanes);
  w.WaitForBlock(r.id, r.expected_warps, lanes);
}

void SyncWarp(Warp& w, const Instruction& in, uint32_t lanes) {
  const uint32_t* const members = w.In<uint32_t>(in.a);
  ForLanes(lanes, [&](int lane) {
    if ((members[lane] >> lane & 1) == 0) w.Fault("partial warp", lane, "the lane's mask does not name it");
  });
  while (lanes != 0) {  // lanes with different masks meet different lanes
    const uint32_t mask = members[std::countr_zero(lanes)];
    uint32_t group = 0;
    ForLanes(lanes, [&](int lane) { group |= static_cast<uint32_t>(members[lane] == mask) << lane; });
    lanes &= ~group;
    w.WaitForLanes(mask | group, group);
  }
}

void Nothing(Warp&, const Instruction&, uint32_t) {}

// bar.red.op.type d, id{, threads}, predicate
bool DecodeReduce(Decoder& d, const Statement& s, Instruction& in) {
  in.immediate = s.Has("and") ? 0 : s.Has("or") ? 1 : 2;
  in.d = d.Out(s.operands.at(0), in.immediate == 2 ? Type::kB32 : Type::kPred);
  in.a = d.In(s.operands.at(1), Type::kB32);
  in.flag = s.operands.size() == 4;
  if (in.flag) in.b = d.In(s.operands[2], Type::kB32);
  in.c = d.InPredicate(s.operands.back(), in.flip);
  in.execute = Reduce;
  return true;
}

bool DecodeBarrier(Decoder& d, const Statement& s, Instruction& in) {
  if (s.Has("warp")) {
    in.a = d.In(s.operands.at(0), Type::kB32);
    in.execute = SyncWarp;
    return true;
  }
  if (s.Has("cluster")) d.Fail("barriers of clusters are not built");
  in.size = s.words[0] == "bar" || s.Has("aligned");
  if (s.Has("red")) return DecodeReduce(d, s, in);
  in.a = d.In(s.operands.at(0), Type::kB32);
  in.flag = s.operands.size() == 2;
  if (in.flag) in.b = d.In(s.operands[1], Type::kB32);
  in.execute = s.Has("arrive") ? Arrive : Sync;
  return true;
}

bool DecodeFence(Decoder& d, const Statement& s, Instruction& in) {
  if (s.Has("proxy")) d.Fail("fences of proxies are not built");
  in.execute = Nothing;
  return true;
}

}  // namespace

std::span<const Rule> BarrierRules() {
  static constexpr Rule kRules[] = {
      {"bar", DecodeBarrier}, {"barrier", DecodeBarrier}, {"membar", DecodeFence}, {"fence", DecodeFence}};
  return kRules;
}

}  // namespace ingot::standin::ptx
