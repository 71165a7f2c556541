// cp.async: copies from global to shared memory that arrive between their issue and the wait for their group.
#include <bit>

#include "standin/ptx/access.h"
#include "standin/ptx/block.h"
#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

bool ArrivesEarly(Warp& w) {
  switch (w.block().launch().options.arrival) {
    case Arrival::kLate:
      return false;
    case Arrival::kEarly:
      return true;
    default:
      return w.block().random()() % 2 == 0;
  }
}

// Of each lane: how many bytes of the source are read. The rest of the target becomes zero.
uint32_t SourceBytes(const Warp& w, const Instruction& in, int lane) {
  if (in.count == 0) return in.size;
  if (in.target != 0) return (*w.In<uint32_t>(in.list[0]) ^ in.flip) >> lane & 1 ? 0 : in.size;  // ignore-src
  return std::min<uint32_t>(w.In<uint32_t>(in.list[0])[lane], in.size);
}

// Copies of `lanes` that read nothing write their zeros as a store does.
void WriteZeros(Warp& w, const Instruction& in, uint32_t lanes, Places& to) {
  lanes = Locate(w, {AccessKind::kWrite, Space::kShared, in.size, false, false}, lanes, to);
  ForLanes(lanes, [&](int lane) { std::memset(to.at[lane], 0, in.size); });
}

// in.a and in.immediate are the target; in.b and in.c.offset the source.
void Issue(Warp& w, const Instruction& in, uint32_t lanes) {
  Places to, from;
  Addresses(w, in, lanes, to.addresses);
  const uint64_t* const source = w.In<uint64_t>(in.b);
  uint32_t reads = 0;
  for (int i = 0; i < kLanes; ++i) from.addresses[i] = source[i] + in.c.offset;
  ForLanes(lanes, [&](int lane) { reads |= static_cast<uint32_t>(SourceBytes(w, in, lane) != 0) << lane; });
  if (w.block().launch().options.empty_copies_land && (lanes & ~reads) != 0) {
    WriteZeros(w, in, lanes & ~reads, to);
    lanes &= reads;
  }
  lanes = Locate(w, {AccessKind::kCopy, Space::kShared, in.size, false, false}, lanes, to);
  reads = Locate(w, {AccessKind::kRead, Space::kGlobal, in.size, false, false}, reads & lanes, from);
  ForLanes(lanes, [&](int lane) {
    Copy copy;
    copy.lane = static_cast<uint32_t>(lane);
    copy.shared = static_cast<uint32_t>(to.addresses[lane]);
    copy.bytes = in.size;
    copy.statement = w.statement();
    if (reads >> lane & 1) std::memcpy(copy.data.data(), from.at[lane], SourceBytes(w, in, lane));
    copy.landed = ArrivesEarly(w);
    if (copy.landed) std::memcpy(to.at[lane], copy.data.data(), copy.bytes);
    w.copies().Add(copy);
  });
}

void Land(Warp& w, const Copy& copy) {
  Block& block = w.block();
  if (!copy.landed) std::memcpy(block.shared() + copy.shared, copy.data.data(), copy.bytes);
  if (block.races() == nullptr) return;
  block.races()->Access(AccessKind::kArrive, w.index(), copy.lane, copy.shared, copy.bytes, copy.statement, false);
}

void Commit(Warp& w, const Instruction&, uint32_t lanes) { w.copies().Commit(lanes); }

void WaitGroups(Warp& w, const Instruction& in, uint32_t lanes) {
  w.copies().Wait(lanes, static_cast<uint32_t>(in.immediate), in.flag, [&](const Copy& copy) { Land(w, copy); });
}

bool DecodeIssue(Decoder& d, const Statement& s, Instruction& in) {
  if (!s.Has("shared") && !s.Has("shared::cta")) d.Fail("expected shared memory as the target");
  Instruction source;
  source.space = Space::kGlobal;
  d.Address(s.operands.at(1), source);
  if (source.flag) d.Fail("the source's address has 32 bits");
  in.b = source.a;
  in.c.offset = static_cast<uintptr_t>(source.immediate);
  in.space = Space::kShared;
  d.Address(s.operands[0], in);
  const uint64_t bytes = s.operands.at(2).bits;
  if (bytes != 4 && bytes != 8 && bytes != 16) d.Fail("copies have 4, 8 or 16 bytes");
  in.size = static_cast<uint8_t>(bytes);
  if (s.operands.size() > 3) {
    const OperandSyntax& last = s.operands[3];
    const bool predicate =
        last.kind == OperandSyntax::Kind::kRegister && d.function().registers[last.index] == Type::kPred;
    WideSlot slot;
    static_cast<Slot&>(slot) = predicate ? d.InPredicate(last, in.flip) : d.In(last, Type::kB32);
    in.target = predicate;
    d.KeepList(in, {slot});
  }
  in.execute = Issue;
  return true;
}

// cp.async.{ca, cg}, .commit_group, .wait_group n, .wait_all
bool Decode(Decoder& d, const Statement& s, Instruction& in) {
  if (s.words.size() < 3 || s.words[1] != "async") return false;
  if (s.words[2] == "commit_group") {
    in.execute = Commit;
    return true;
  }
  if (s.words[2] == "wait_group" || s.words[2] == "wait_all") {
    in.flag = s.words[2] == "wait_all";  // of copies that no group holds, too
    in.immediate = in.flag ? 0 : static_cast<int64_t>(s.operands.at(0).bits);
    in.execute = WaitGroups;
    return true;
  }
  return (s.words[2] == "ca" || s.words[2] == "cg") && DecodeIssue(d, s, in);
}

}  // namespace

std::span<const Rule> CopyRules() {
  static constexpr Rule kRules[] = {{"cp", Decode}};
  return kRules;
}

}  // namespace ingot::standin::ptx
