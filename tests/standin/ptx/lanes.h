// Applies a function to each lane of an instruction's operands.
#pragma once

#include <cstring>

#include "standin/ptx/warp.h"

namespace ingot::standin::ptx {

// Writes the values of `lanes` alone.
template <typename T>
inline void Store(T* to, const T* from, uint32_t lanes) {
  if (lanes == kAllLanes) {
    std::memcpy(to, from, kLanes * sizeof(T));
    return;
  }
  for (int i = 0; i < kLanes; ++i) to[i] = (lanes >> i & 1) != 0 ? from[i] : to[i];
}

template <typename F, typename D, typename A>
void Map1(Warp& w, const Instruction& in, uint32_t lanes) {
  const A* const a = w.In<A>(in.a);
  alignas(64) D result[kLanes];
  for (int i = 0; i < kLanes; ++i) result[i] = F()(a[i]);
  Store(w.Out<D>(in.d), result, lanes);
}

template <typename F, typename D, typename A, typename B = A>
void Map2(Warp& w, const Instruction& in, uint32_t lanes) {
  const A* const a = w.In<A>(in.a);
  const B* const b = w.In<B>(in.b);
  alignas(64) D result[kLanes];
  for (int i = 0; i < kLanes; ++i) result[i] = F()(a[i], b[i]);
  Store(w.Out<D>(in.d), result, lanes);
}

template <typename F, typename D, typename A, typename B = A, typename C = A>
void Map3(Warp& w, const Instruction& in, uint32_t lanes) {
  const A* const a = w.In<A>(in.a);
  const B* const b = w.In<B>(in.b);
  const C* const c = w.In<C>(in.c);
  alignas(64) D result[kLanes];
  for (int i = 0; i < kLanes; ++i) result[i] = F()(a[i], b[i], c[i]);
  Store(w.Out<D>(in.d), result, lanes);
}

// As a predicate: the lanes for which F holds.
template <typename F, typename A>
uint32_t Test2(const A* a, const A* b) {
  uint32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= static_cast<uint32_t>(F()(a[i], b[i])) << i;
  return bits;
}

// Calls f(lane) for each of `lanes`.
template <typename F>
inline void ForLanes(uint32_t lanes, const F& f) {
  for (; lanes != 0; lanes &= lanes - 1) f(__builtin_ctz(lanes));
}

// Calls f with a null pointer to the integer type of `type`, and returns what it does; null for other types.
template <typename F>
Execute ByInteger(Type type, const F& f) {
  switch (type) {
    case Type::kU16:
    case Type::kB16:
      return f(static_cast<uint16_t*>(nullptr));
    case Type::kU32:
    case Type::kB32:
      return f(static_cast<uint32_t*>(nullptr));
    case Type::kU64:
    case Type::kB64:
      return f(static_cast<uint64_t*>(nullptr));
    case Type::kS16:
      return f(static_cast<int16_t*>(nullptr));
    case Type::kS32:
      return f(static_cast<int32_t*>(nullptr));
    case Type::kS64:
      return f(static_cast<int64_t*>(nullptr));
    default:
      return nullptr;
  }
}

}  // namespace ingot::standin::ptx
