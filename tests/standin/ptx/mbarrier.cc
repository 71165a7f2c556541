// mbarrier.* of sm_80, test_wait and try_wait by state and by parity, and cp.async.mbarrier.arrive.
#include "standin/ptx/mbarrier.h"

#include <algorithm>

#include "standin/ptx/access.h"
#include "standin/ptx/block.h"
#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {

Races::Clock MBarriers::Release(Races* races, uint32_t warp, uint32_t lane) {
  return races == nullptr ? Races::Clock() : races->Release(warp, lane);
}

void MBarriers::AddArrival(uint32_t address, const Races::Clock& clock) {
  Races::Clock& sum = clocks_[address].arriving;
  sum.resize(std::max(sum.size(), clock.size()));
  for (size_t i = 0; i < clock.size(); ++i) sum[i] = std::max(sum[i], clock[i]);
  ++changes_;
}

void MBarriers::Complete(uint32_t address) {
  Clocks& clocks = clocks_[address];
  clocks.completed = std::move(clocks.arriving);
  clocks.arriving.clear();
}

void MBarriers::Acquire(Races* races, uint32_t warp, uint32_t lane, uint32_t address) {
  if (races != nullptr) races->Acquire(warp, lane, clocks_[address].completed);
}

std::vector<MBarriers::Deferred> MBarriers::TakeDeferred(uint32_t address) {
  const auto found = deferred_.find(address);
  if (found == deferred_.end()) return {};
  std::vector<Deferred> all = std::move(found->second);
  deferred_.erase(found);
  return all;
}

namespace {

// An object that a lane's instruction names.
struct Object {
  uint32_t address;
  std::byte* at;

  MBarrierWord Read() const {
    uint64_t bits;
    std::memcpy(&bits, at, sizeof(bits));
    return MBarrierWord::Of(bits);
  }
  void Write(uint64_t bits) const { std::memcpy(at, &bits, sizeof(bits)); }
};

// Calls f(lane, object) for the lanes whose object is there. Generic addresses must be in shared memory.
template <typename F>
void ForObjects(Warp& w, const Instruction& in, uint32_t lanes, AccessKind kind, const F& f) {
  Places p;
  Addresses(w, in, lanes, p.addresses);
  lanes = Locate(w, {kind, in.space, 8, false, false}, lanes, p);
  ForLanes(lanes, [&](int lane) {
    const size_t offset = reinterpret_cast<uintptr_t>(p.at[lane]) - reinterpret_cast<uintptr_t>(w.block().shared());
    if (offset >= w.block().shared_bytes()) {
      w.Fault("mbarrier", lane, "the object is not in shared memory");
      return;
    }
    f(lane, Object{static_cast<uint32_t>(offset), p.at[lane]});
  });
}

template <typename F>
void ForValidObjects(Warp& w, const Instruction& in, uint32_t lanes, const F& f) {
  ForObjects(w, in, lanes, AccessKind::kAtomic, [&](int lane, const Object& object) {
    const MBarrierWord word = object.Read();
    if (!word.valid) return w.Fault("mbarrier", lane, "the object is not initialized");
    f(lane, object, word);
  });
}

void Init(Warp& w, const Instruction& in, uint32_t lanes) {
  const uint32_t* const count = w.In<uint32_t>(in.b);
  ForObjects(w, in, lanes, AccessKind::kWrite, [&](int lane, const Object& object) {
    if (count[lane] == 0 || count[lane] > MBarrierWord::kMostCount) {
      return w.Fault("mbarrier", lane, "a count of " + std::to_string(count[lane]));
    }
    object.Write(MBarrierWord{count[lane], count[lane], 0, true}.Bits());
    w.block().mbarriers().Change();
  });
}

void Invalidate(Warp& w, const Instruction& in, uint32_t lanes) {
  ForObjects(w, in, lanes, AccessKind::kWrite, [&](int lane, const Object& object) {
    if (!object.Read().valid) return w.Fault("mbarrier", lane, "the object is not initialized");
    object.Write(~uint64_t{0});
  });
}

enum ArriveMode : uint8_t { kDrop = 1, kNoComplete = 2 };

// Counts `count` arrivals of `lane`, of which `clock` has what they release.
void Count(Warp& w, int lane, const Object& object, MBarrierWord word, uint32_t count, int mode,
           const Races::Clock& clock) {
  if (count == 0 || count > word.pending || (mode & kNoComplete && count == word.pending)) {
    return w.Fault("mbarrier", lane,
                   std::to_string(count) + " arrivals, and the phase expects " + std::to_string(word.pending) +
                       (mode & kNoComplete ? ", which this one must not complete" : ""));
  }
  MBarriers& barriers = w.block().mbarriers();
  barriers.AddArrival(object.address, clock);
  word.pending -= count;
  if (mode & kDrop) word.expected -= std::min(count, word.expected);
  if (word.pending == 0) {
    word.pending = word.expected;
    ++word.phase;
    barriers.Complete(object.address);
  }
  object.Write(word.Bits());
}

// in.b: the count; in.d: the state before, for test_wait.
void Arrive(Warp& w, const Instruction& in, uint32_t lanes) {
  const uint32_t* const count = w.In<uint32_t>(in.b);
  uint64_t* const state = w.Out<uint64_t>(in.d);
  ForValidObjects(w, in, lanes, [&](int lane, const Object& object, const MBarrierWord& word) {
    state[lane] = word.Bits();
    Count(w, lane, object, word, count[lane], in.size, MBarriers::Release(w.block().races(), w.index(), lane));
  });
}

// The copies of a deferred arrival land, and it is counted.
void Land(Warp& waiting, const Object& object, const MBarriers::Deferred& arrival) {
  Block& block = waiting.block();
  arrival.warp->copies().LandUpTo(arrival.lane, arrival.serial, [&](const Copy& copy) {
    if (!copy.landed) std::memcpy(block.shared() + copy.shared, copy.data.data(), copy.bytes);
    if (block.races() == nullptr) return;
    block.races()->Access(AccessKind::kLand, arrival.warp->index(), copy.lane, copy.shared, copy.bytes, copy.statement,
                          false);
  });
  Count(waiting, static_cast<int>(arrival.lane), object, object.Read(), 1, 0, arrival.clock);
}

// Whether the phase of a state, or of a parity (in.size), has completed.
bool Completed(Warp& w, const Instruction& in, int lane, const MBarrierWord& word) {
  if (in.size != 0) return (word.phase & 1) != (w.In<uint32_t>(in.b)[lane] & 1);
  const MBarrierWord state = MBarrierWord::Of(w.In<uint64_t>(in.b)[lane]);
  const uint32_t ahead = (word.phase - state.phase) & 0xffff;
  if (!state.valid || ahead > 1) w.Fault("mbarrier", lane, "the state is of no phase that may be waited for");
  return ahead != 0;
}

// A wait that fails ends the warp's turn.
void Wait(Warp& w, const Instruction& in, uint32_t lanes) {
  uint32_t done = 0;
  MBarriers& barriers = w.block().mbarriers();
  ForValidObjects(w, in, lanes, [&](int lane, const Object& object, const MBarrierWord& word) {
    bool completed = Completed(w, in, lane, word);
    if (!completed) {
      for (const MBarriers::Deferred& arrival : barriers.TakeDeferred(object.address)) Land(w, object, arrival);
      completed = Completed(w, in, lane, object.Read());
    }
    if (completed) barriers.Acquire(w.block().races(), w.index(), lane, object.address);
    done |= static_cast<uint32_t>(completed) << lane;
  });
  w.SetPredicate(in.d, done, lanes);
  if (done == 0) w.Yield();
}

void PendingCount(Warp& w, const Instruction& in, uint32_t lanes) {
  const uint64_t* const state = w.In<uint64_t>(in.a);
  uint32_t* const to = w.Out<uint32_t>(in.d);
  ForLanes(lanes, [&](int lane) { to[lane] = MBarrierWord::Of(state[lane]).pending; });
}

// in.size: .noinc. Without it the arrival is one more that the phase waits for.
void ArriveAfterCopies(Warp& w, const Instruction& in, uint32_t lanes) {
  Block& block = w.block();
  ForValidObjects(w, in, lanes, [&](int lane, const Object& object, MBarrierWord word) {
    if (in.size == 0) {
      ++word.pending;
      object.Write(word.Bits());
    }
    const MBarriers::Deferred arrival{&w, static_cast<uint32_t>(lane), w.copies().serial(),
                                      MBarriers::Release(block.races(), w.index(), lane)};
    if (block.launch().options.arrival == Arrival::kEarly) {
      Land(w, object, arrival);
    } else {
      block.mbarriers().Defer(object.address, arrival);
    }
  });
}

void FindSpace(const Statement& s, Instruction& in) {
  for (const std::string_view word : s.words) {
    if (const auto space = ParseSpace(word)) in.space = *space;
  }
}

// mbarrier.arrive{_drop}{.noComplete} state, [object]{, count}
bool DecodeArrive(Decoder& d, const Statement& s, Instruction& in) {
  in.size = (s.words[1] == "arrive_drop" ? kDrop : 0) | (s.Has("noComplete") ? kNoComplete : 0);
  in.d = d.Out(s.operands.at(0), Type::kB64);
  d.Address(s.operands.at(1), in);
  in.b = s.operands.size() > 2 ? d.In(s.operands[2], Type::kB32) : d.One();
  in.execute = Arrive;
  return true;
}

// mbarrier.{test, try}_wait{.parity} done, [object], state{, suspend time}
bool DecodeWait(Decoder& d, const Statement& s, Instruction& in) {
  in.d = d.Out(s.operands.at(0), Type::kPred);
  const bool parity = s.Has("parity");
  d.Address(s.operands.at(1), in);
  in.b = d.In(s.operands.at(2), parity ? Type::kB32 : Type::kB64);
  in.size = parity;
  in.execute = Wait;
  return true;
}

bool Decode(Decoder& d, const Statement& s, Instruction& in) {
  const std::string_view what = s.words.at(1);
  FindSpace(s, in);
  if (what == "arrive" || what == "arrive_drop") return DecodeArrive(d, s, in);
  if (what == "test_wait" || what == "try_wait") return DecodeWait(d, s, in);
  if (what == "pending_count") {
    in.d = d.Out(s.operands.at(0), Type::kB32);
    in.a = d.In(s.operands.at(1), Type::kB64);
    in.execute = PendingCount;
    return true;
  }
  if (what != "init" && what != "inval") return false;
  d.Address(s.operands.at(0), in);
  if (what == "init") in.b = d.In(s.operands.at(1), Type::kB32);
  in.execute = what == "init" ? Init : Invalidate;
  return true;
}

// cp.async.mbarrier.arrive{.noinc}{.shared}.b64 [object]
bool DecodeCopyArrive(Decoder& d, const Statement& s, Instruction& in) {
  if (s.words.size() < 4 || s.words[1] != "async" || s.words[2] != "mbarrier") return false;
  FindSpace(s, in);
  d.Address(s.operands.at(0), in);
  in.size = s.Has("noinc");
  in.execute = ArriveAfterCopies;
  return true;
}

}  // namespace

std::span<const Rule> MBarrierRules() {
  static constexpr Rule kRules[] = {{"mbarrier", Decode}, {"cp", DecodeCopyArrive}};
  return kRules;
}

}  // namespace ingot::standin::ptx
