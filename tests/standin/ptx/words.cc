// The modifiers that the rules by opcode know. A word that no rule reads would change an instruction silently, so all others are refused.
#include <algorithm>

#include "standin/ptx/decoder.h"

namespace ingot::standin::ptx {
namespace {

enum Kind { kInteger = 1, kFloat = 2, kHalf = 4, kAny = 7 };  // of the statement's last word

struct Row {
  std::string_view opcodes;
  int kinds;
  std::string_view words;
};

constexpr std::string_view kRounded = "rn rz rm rp ftz sat";
constexpr std::string_view kCaches =
    "v2 v4 volatile weak relaxed acquire release cta gpu sys nc ca cg cs lu cv wb wt L1::evict_normal "
    "L1::evict_unchanged L1::evict_first "
    "L1::evict_last L1::no_allocate L2::64B L2::128B L2::256B L2::cache_hint";

constexpr Row kRows[] = {
    {"add sub", kInteger, "sat cc"},
    {"add sub mul", kFloat, kRounded},
    {"add sub mul", kHalf, "rn ftz sat"},
    {"mul", kInteger, "hi lo wide"},
    {"mad", kInteger, "hi lo wide cc"},
    {"mul24 mad24", kInteger, "hi lo"},
    {"mad fma", kFloat, kRounded},
    {"fma", kHalf, "rn ftz sat relu"},
    {"addc subc madc", kInteger, "hi lo cc"},
    {"div rem sad min max neg abs", kInteger, ""},
    {"dp4a", kInteger, ""},
    {"dp2a", kInteger, "lo hi"},
    {"div", kFloat, "rn rz rm rp approx full ftz"},
    {"rcp sqrt rsqrt", kFloat, "rn rz rm rp approx ftz"},
    {"ex2 lg2 sin cos tanh", kFloat, "approx ftz"},
    {"ex2 tanh", kHalf, "approx ftz"},
    {"min max", kFloat, "ftz NaN"},
    {"min max", kHalf, "ftz NaN"},
    {"neg abs", kFloat | kHalf, "ftz"},
    {"copysign", kFloat, ""},
    {"testp", kFloat, "finite infinite number notanumber normal subnormal"},
    {"and or xor not cnot shl shr popc clz brev bfe bfi", kInteger, ""},
    {"bfind", kInteger, "shiftamt"},
    {"lop3", kInteger, "and or"},
    {"prmt", kInteger, "f4e b4e rc8 ecl ecr rc16"},
    {"shf", kInteger, "l r wrap clamp"},
    {"bmsk szext", kInteger, "wrap clamp"},
    {"setp set", kInteger, "eq ne lt le gt ge lo ls hi hs and or xor"},
    {"setp set", kFloat, "eq ne lt le gt ge equ neu ltu leu gtu geu num nan and or xor ftz"},
    {"setp set", kHalf, "eq ne lt le gt ge equ neu ltu leu gtu geu num nan and or xor"},
    {"selp slct", kAny, ""},
    {"cvt", kAny, "rn rz rm rp rna rni rzi rmi rpi ftz sat relu"},
    {"mov isspacep", kAny, ""},
    {"cvta", kAny, "to"},
    {"ld ldu st", kAny, kCaches},
    {"prefetch prefetchu discard applypriority", kAny, "L1 L2 L2::evict_last L2::evict_normal"},
    {"createpolicy", kAny, "fractional L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged"},
    {"atom red", kAny,
     "add min max and or xor inc dec exch cas noftz relaxed acquire release acq_rel cta gpu sys L2::cache_hint"},
    {"bra brx call ret", kAny, "uni idx"},
    {"exit trap brkpt nanosleep activemask", kAny, ""},
    {"shfl", kAny, "sync up down bfly idx"},
    {"vote match redux", kAny, "sync all any uni ballot add min max and or xor"},
    {"bar barrier", kAny, "cta sync arrive red warp aligned popc and or"},
    {"membar fence", kAny, "cta gl gpu sys acq_rel sc acquire release"},
    {"cp", kAny,
     "async ca cg commit_group wait_group wait_all mbarrier arrive noinc L2::64B L2::128B L2::256B L2::cache_hint"},
    {"mbarrier", kAny,
     "init inval arrive arrive_drop noComplete test_wait try_wait parity pending_count acquire release relaxed cta"},
    {"ldmatrix movmatrix", kAny, "sync aligned m8n8 x1 x2 x4 trans"},
    {"mma", kAny, "sync aligned m8n8k4 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m8n8k16 row col satfinite"},
};

bool Contains(std::string_view list, std::string_view word) {
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    if (list.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

int KindOf(const Statement& s) {
  const auto type = ParseType(s.words.back());
  if (!type) return kAny;
  if (*type == Type::kF32 || *type == Type::kF64) return kFloat;
  return IsFloat(*type) ? kHalf : kInteger;
}

bool Known(const Statement& s, std::string_view word) {
  if (ParseType(word) || ParseSpace(word)) return true;
  const int kind = KindOf(s);
  return std::any_of(std::begin(kRows), std::end(kRows), [&](const Row& row) {
    return (row.kinds & kind) != 0 && Contains(row.opcodes, s.words[0]) && Contains(row.words, word);
  });
}

}  // namespace

void CheckWords(const Decoder& d, const Statement& s) {
  for (size_t i = 1; i < s.words.size(); ++i) {
    if (!Known(s, s.words[i])) d.Fail("the modifier ." + std::string(s.words[i]) + " is not built");
  }
}

}  // namespace ingot::standin::ptx
