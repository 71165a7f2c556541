// Exchange among the lanes of a warp: shfl, vote, match, redux, activemask.
#include <algorithm>
#include <bit>

#include "standin/ptx/block.h"
#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

constexpr std::string_view kShuffles[] = {"up", "down", "bfly", "idx"};
constexpr std::string_view kVotes[] = {"all", "any", "uni", "ballot"};

// All lanes that an instruction names must run it together, and each lane must name itself.
void CheckMembers(Warp& w, const uint32_t* members, uint32_t lanes) {
  ForLanes(lanes, [&](int lane) {
    const uint32_t missing = members[lane] & w.live() & ~lanes;
    if (missing != 0) {
      w.Fault("partial warp", lane,
              "lane " + std::to_string(std::countr_zero(missing)) + " is named and does not run it");
    } else if ((members[lane] >> lane & 1) == 0) {
      w.Fault("partial warp", lane, "the lane's mask does not name it");
    }
  });
}

// Calls f for each set of lanes with the same mask.
template <typename F>
void ForGroups(Warp& w, const uint32_t* members, uint32_t lanes, const F& f) {
  CheckMembers(w, members, lanes);
  while (lanes != 0) {
    const uint32_t mask = members[std::countr_zero(lanes)];
    uint32_t group = 0;
    ForLanes(lanes, [&](int lane) { group |= static_cast<uint32_t>(members[lane] == mask) << lane; });
    f(group);
    lanes &= ~group;
  }
}

// The lane that `lane` reads, and whether it is in range.
int Source(int64_t mode, int lane, uint32_t b, uint32_t c, bool& in_range) {
  const int segment = static_cast<int>(c >> 8 & 31), clamp = static_cast<int>(c & 31),
            offset = static_cast<int>(b & 31);
  const int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
  int from = 0;
  switch (mode) {
    case 0:
      from = lane - offset;
      in_range = from >= most;
      break;
    case 1:
      from = lane + offset;
      in_range = from <= most;
      break;
    case 2:
      from = lane ^ offset;
      in_range = from <= most;
      break;
    default:
      from = least | (offset & ~segment);
      in_range = from <= most;
      break;
  }
  return in_range ? from : lane;
}

void Shuffle(Warp& w, const Instruction& in, uint32_t lanes) {
  const uint32_t *a = w.In<uint32_t>(in.a), *b = w.In<uint32_t>(in.b), *c = w.In<uint32_t>(in.c);
  CheckMembers(w, w.In<uint32_t>(in.list[0]), lanes);
  uint32_t result[kLanes], ranges = 0;
  ForLanes(lanes, [&](int lane) {
    bool in_range = false;
    const int from = Source(in.immediate, lane, b[lane], c[lane], in_range);
    if ((lanes >> from & 1) == 0) {
      w.Fault("partial warp", lane, "it reads lane " + std::to_string(from) + ", which does not run it");
    }
    result[lane] = a[from];
    ranges |= static_cast<uint32_t>(in_range) << lane;
  });
  uint32_t* const to = w.Out<uint32_t>(in.d);
  ForLanes(lanes, [&](int lane) { to[lane] = result[lane]; });
  if (in.count == 2) w.SetPredicate(in.list[1], ranges, lanes);
}

template <size_t kCount>
int64_t FindMode(const Decoder& d, const Statement& s, const std::string_view (&names)[kCount]) {
  for (size_t i = 0; i < kCount; ++i) {
    if (s.Has(names[i])) return static_cast<int64_t>(i);
  }
  d.Fail("an unknown mode");
}

void RequireSync(const Decoder& d, const Statement& s) {
  if (!s.Has("sync")) d.Fail("forms without .sync are not built");
}

bool DecodeShuffle(Decoder& d, const Statement& s, Instruction& in) {
  RequireSync(d, s);
  in.immediate = FindMode(d, s, kShuffles);
  const OperandSyntax& to = s.operands.at(0);
  const bool pair = to.kind == OperandSyntax::Kind::kPair;
  in.d = d.Out(pair ? to.parts.at(0) : to, Type::kB32);
  in.a = d.In(s.operands.at(1), Type::kB32);
  in.b = d.In(s.operands.at(2), Type::kB32);
  in.c = d.In(s.operands.at(3), Type::kB32);
  std::vector<WideSlot> list{d.InWide(s.operands.at(4), Type::kB32)};
  if (pair) list.push_back(d.OutWide(to.parts.at(1), Type::kPred));
  d.KeepList(in, std::move(list));
  in.execute = Shuffle;
  return true;
}

void VoteGroup(Warp& w, const Instruction& in, uint32_t lanes) {
  const uint32_t holds = (w.Predicate(in.a) ^ in.flip) & lanes;
  const bool results[] = {holds == lanes, holds != 0, holds == lanes || holds == 0};
  if (in.immediate < 3) return w.SetPredicate(in.d, results[in.immediate] ? kAllLanes : 0, lanes);
  uint32_t* const to = w.Out<uint32_t>(in.d);
  ForLanes(lanes, [&](int lane) { to[lane] = holds; });
}

void Vote(Warp& w, const Instruction& in, uint32_t lanes) {
  ForGroups(w, w.In<uint32_t>(in.b), lanes, [&](uint32_t group) { VoteGroup(w, in, group); });
}

bool DecodeVote(Decoder& d, const Statement& s, Instruction& in) {
  RequireSync(d, s);
  in.immediate = FindMode(d, s, kVotes);
  in.d = d.Out(s.operands.at(0), in.immediate == 3 ? Type::kB32 : Type::kPred);
  in.a = d.InPredicate(s.operands.at(1), in.flip);
  in.b = d.In(s.operands.at(2), Type::kB32);
  in.execute = Vote;
  return true;
}

// The lanes with the same value. in.flag: match.all, with a predicate in the list.
template <typename T>
void MatchGroup(Warp& w, const Instruction& in, uint32_t lanes) {
  const T* const a = w.In<T>(in.a);
  uint32_t* const to = w.Out<uint32_t>(in.d);
  uint32_t same[kLanes] = {};
  ForLanes(lanes, [&](int lane) {
    ForLanes(lanes, [&](int other) { same[lane] |= static_cast<uint32_t>(a[other] == a[lane]) << other; });
  });
  const bool all = same[std::countr_zero(lanes)] == lanes;
  ForLanes(lanes, [&](int lane) { to[lane] = in.flag ? (all ? lanes : 0) : same[lane]; });
  if (in.count != 0) w.SetPredicate(in.list[0], all ? kAllLanes : 0, lanes);
}

template <typename T>
void Match(Warp& w, const Instruction& in, uint32_t lanes) {
  ForGroups(w, w.In<uint32_t>(in.b), lanes, [&](uint32_t group) { MatchGroup<T>(w, in, group); });
}

bool DecodeMatch(Decoder& d, const Statement& s, Instruction& in) {
  RequireSync(d, s);
  const Type type = LastType(d, s);
  const OperandSyntax& to = s.operands.at(0);
  const bool pair = to.kind == OperandSyntax::Kind::kPair;
  in.flag = s.Has("all");
  in.d = d.Out(pair ? to.parts.at(0) : to, Type::kB32);
  if (pair) d.KeepList(in, {d.OutWide(to.parts.at(1), Type::kPred)});
  in.a = d.In(s.operands.at(1), type);
  in.b = d.In(s.operands.at(2), Type::kB32);
  in.execute = SizeOf(type) == 4 ? Match<uint32_t> : Match<uint64_t>;
  return true;
}

template <typename T, typename F>
void Reduce(Warp& w, const Instruction& in, uint32_t lanes) {
  const T* const a = w.In<T>(in.a);
  T* const to = w.Out<T>(in.d);
  ForGroups(w, w.In<uint32_t>(in.b), lanes, [&](uint32_t group) {
    T sum = a[std::countr_zero(group)];
    ForLanes(group & (group - 1), [&](int lane) { sum = F()(sum, a[lane]); });
    ForLanes(group, [&](int lane) { to[lane] = sum; });
  });
}

struct Add {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a + b; }
};
struct And {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a & b; }
};
struct Or {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a | b; }
};
struct Xor {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a ^ b; }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

struct ReduceRow {
  std::string_view name;
  Execute is_unsigned, is_signed;
};

constexpr ReduceRow kReductions[] = {{"add", Reduce<uint32_t, Add>, Reduce<uint32_t, Add>},
                                     {"min", Reduce<uint32_t, Min>, Reduce<int32_t, Min>},
                                     {"max", Reduce<uint32_t, Max>, Reduce<int32_t, Max>},
                                     {"and", Reduce<uint32_t, And>, nullptr},
                                     {"or", Reduce<uint32_t, Or>, nullptr},
                                     {"xor", Reduce<uint32_t, Xor>, nullptr}};

bool DecodeReduce(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  for (const ReduceRow& row : kReductions) {
    if (!s.Has(row.name)) continue;
    in.execute = IsSigned(type) ? row.is_signed : row.is_unsigned;
    if (in.execute == nullptr || IsFloat(type)) return false;
    in.d = d.Out(s.operands.at(0), type);
    in.a = d.In(s.operands.at(1), type);
    in.b = d.In(s.operands.at(2), Type::kB32);
    return true;
  }
  return false;
}

void ActiveMask(Warp& w, const Instruction& in, uint32_t lanes) {
  uint32_t* const to = w.Out<uint32_t>(in.d);
  ForLanes(lanes, [&](int lane) { to[lane] = lanes; });
}

bool DecodeActiveMask(Decoder& d, const Statement& s, Instruction& in) {
  in.d = d.Out(s.operands.at(0), Type::kB32);
  in.execute = ActiveMask;
  return true;
}

}  // namespace

std::span<const Rule> CollectiveRules() {
  static constexpr Rule kRules[] = {{"shfl", DecodeShuffle},
                                    {"vote", DecodeVote},
                                    {"match", DecodeMatch},
                                    {"redux", DecodeReduce},
                                    {"activemask", DecodeActiveMask}};
  return kRules;
}

}  // namespace ingot::standin::ptx
