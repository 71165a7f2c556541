// Each instruction on special and random values, against arithmetic written out here.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <regex>

#include "standin/ptx/half.h"
#include "standin/ptx/test_kernel.h"

namespace ingot::standin::ptx {
namespace {

constexpr size_t kThreads = 256;

float F(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
double D(uint64_t bits) { return std::bit_cast<double>(bits); }
int32_t S(uint64_t bits) { return static_cast<int32_t>(bits); }
uint32_t U(uint64_t bits) { return static_cast<uint32_t>(bits); }
int64_t L(uint64_t bits) { return static_cast<int64_t>(bits); }
uint64_t B(float x) { return x != x ? 0x7fffffff : std::bit_cast<uint32_t>(x); }
uint64_t B(double x) { return std::bit_cast<uint64_t>(x); }
uint64_t B(bool x) { return x; }
uint64_t B(int32_t x) { return static_cast<uint32_t>(x); }
uint64_t B(uint32_t x) { return x; }
uint64_t B(int64_t x) { return static_cast<uint64_t>(x); }
[[maybe_unused]] uint64_t B(uint64_t x) { return x; }
uint64_t B(uint16_t x) { return x; }
float H(uint64_t bits) { return Half::ToFloat(static_cast<uint16_t>(bits)); }
float Bf(uint64_t bits) { return Bfloat::ToFloat(static_cast<uint16_t>(bits)); }
float Flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// Registers by letter and bytes: A4 is the first operand as 32 bits, D the result, P0 a predicate result, P1 and P2 bits 0 of A and B.
struct Row {
  std::string text;
  char result;  // bytes of D, or 'p'
  std::function<uint64_t(uint64_t a, uint64_t b, uint64_t c)> want;
};

using V = uint64_t;

std::vector<Row> IntegerRows() {
  return {
      {"add.s32 D4, A4, B4", '4', [](V a, V b, V) { return B(U(a) + U(b)); }},
      {"add.s16 D2, A2, B2", '2', [](V a, V b, V) { return (a + b) & 0xffff; }},
      {"add.u64 D8, A8, 77", '8', [](V a, V, V) { return a + 77; }},
      {"add.sat.s32 D4, A4, B4", '4',
       [](V a, V b, V) {
         return B(static_cast<int32_t>(std::clamp<int64_t>(int64_t{S(a)} + S(b), INT32_MIN, INT32_MAX)));
       }},
      {"sub.s64 D8, A8, B8", '8', [](V a, V b, V) { return a - b; }},
      {"mul.lo.s32 D4, A4, B4", '4', [](V a, V b, V) { return B(U(a) * U(b)); }},
      {"mul.lo.u16 D2, A2, B2", '2', [](V a, V b, V) { return (a & 0xffff) * (b & 0xffff) & 0xffff; }},
      {"mul.hi.u32 D4, A4, B4", '4', [](V a, V b, V) { return uint64_t{U(a)} * U(b) >> 32; }},
      {"mul.hi.s32 D4, A4, B4", '4', [](V a, V b, V) { return B(static_cast<int32_t>(int64_t{S(a)} * S(b) >> 32)); }},
      {"mul.wide.s32 D8, A4, B4", '8', [](V a, V b, V) { return B(int64_t{S(a)} * S(b)); }},
      {"mul.wide.u16 D4, A2, B2", '4',
       [](V a, V b, V) { return B(static_cast<uint32_t>((a & 0xffff) * (b & 0xffff))); }},
      {"mul.hi.u64 D8, A8, B8", '8',
       [](V a, V b, V) {
         const uint64_t low = uint64_t{U(a)} * U(b), m1 = (a >> 32) * U(b), m2 = U(a) * (b >> 32);
         const uint64_t middle = (low >> 32) + U(m1) + U(m2);
         return (a >> 32) * (b >> 32) + (m1 >> 32) + (m2 >> 32) + (middle >> 32);
       }},
      {"mad.lo.s32 D4, A4, B4, C4", '4', [](V a, V b, V c) { return B(U(a) * U(b) + U(c)); }},
      {"mad.wide.u32 D8, A4, B4, C8", '8', [](V a, V b, V c) { return uint64_t{U(a)} * U(b) + c; }},
      {"mul24.lo.s32 D4, A4, B4", '4',
       [](V a, V b, V) { return B(U(static_cast<uint64_t>(int64_t{S(a << 8) >> 8} * (S(b << 8) >> 8)))); }},
      {"div.u32 D4, A4, B4", '4', [](V a, V b, V) { return B(U(b) == 0 ? ~0u : U(a) / U(b)); }},
      {"div.s32 D4, A4, B4", '4',
       [](V a, V b, V) { return B(S(b) == 0 ? -1 : static_cast<int32_t>(int64_t{S(a)} / S(b))); }},
      {"rem.s32 D4, A4, B4", '4',
       [](V a, V b, V) { return B(S(b) == 0 ? S(a) : static_cast<int32_t>(int64_t{S(a)} % S(b))); }},
      {"rem.u64 D8, A8, B8", '8', [](V a, V b, V) { return b == 0 ? a : a % b; }},
      {"min.s32 D4, A4, B4", '4', [](V a, V b, V) { return B(std::min(S(a), S(b))); }},
      {"max.u32 D4, A4, B4", '4', [](V a, V b, V) { return B(std::max(U(a), U(b))); }},
      {"max.s64 D8, A8, B8", '8', [](V a, V b, V) { return B(std::max(L(a), L(b))); }},
      {"abs.s32 D4, A4", '4', [](V a, V, V) { return B(S(a) < 0 ? 0u - U(a) : U(a)); }},
      {"neg.s64 D8, A8", '8', [](V a, V, V) { return 0 - a; }},
      {"sad.s32 D4, A4, B4, C4", '4',
       [](V a, V b, V c) { return B(U(static_cast<uint64_t>(std::abs(int64_t{S(a)} - S(b)))) + U(c)); }},
      {"dp4a.s32.u32 D4, A4, B4, C4", '4',
       [](V a, V b, V c) {
         int32_t sum = 0;
         for (int i = 0; i < 4; ++i) sum += static_cast<int8_t>(a >> (8 * i)) * static_cast<uint8_t>(b >> (8 * i));
         return B(U(c) + static_cast<uint32_t>(sum));
       }},
      {"dp2a.lo.s32.u32 D4, A4, B4, C4", '4',
       [](V a, V b, V c) {
         return B(U(c) + U(static_cast<uint64_t>(static_cast<int16_t>(a) * int32_t(b & 255) +
                                                 static_cast<int16_t>(a >> 16) * int32_t(b >> 8 & 255))));
       }},
      {"dp2a.hi.u32.s32 D4, A4, B4, C4", '4',
       [](V a, V b, V c) {
         return B(U(c) + U(a & 0xffff) * static_cast<uint32_t>(static_cast<int8_t>(b >> 16)) +
                  U(a >> 16 & 0xffff) * static_cast<uint32_t>(static_cast<int8_t>(b >> 24)));
       }},
      // 128 bits: a + c, b + a with the carry.
      {"add.cc.u64 X8, A8, C8;\naddc.u64 D8, B8, A8", '8', [](V a, V b, V c) { return b + a + (a + c < a); }},
      {"sub.cc.u32 X4, A4, C4;\nsubc.u32 D4, B4, A4", '4',
       [](V a, V b, V c) { return B(U(b) - U(a) - (U(a) < U(c))); }},
      {"mad.lo.cc.u32 X4, A4, B4, C4;\nmadc.hi.u32 D4, A4, B4, C4", '4',
       [](V a, V b, V c) {
         const uint64_t product = uint64_t{U(a)} * U(b);
         return B(U(product >> 32) + U(c) + static_cast<uint32_t>((uint64_t{U(product)} + U(c)) >> 32));
       }},
  };
}

std::vector<Row> BitRows() {
  return {
      {"and.b32 D4, A4, B4", '4', [](V a, V b, V) { return B(U(a & b)); }},
      {"or.b16 D2, A2, B2", '2', [](V a, V b, V) { return (a | b) & 0xffff; }},
      {"xor.b64 D8, A8, B8", '8', [](V a, V b, V) { return a ^ b; }},
      {"not.b32 D4, A4", '4', [](V a, V, V) { return B(U(~a)); }},
      {"cnot.b32 D4, A4", '4', [](V a, V, V) { return B(U(a) == 0); }},
      {"shl.b32 D4, A4, B4", '4', [](V a, V b, V) { return U(b) > 31 ? 0 : B(U(a) << U(b)); }},
      {"shr.u64 D8, A8, B4", '8', [](V a, V b, V) { return U(b) > 63 ? 0 : a >> U(b); }},
      {"shr.s32 D4, A4, B4", '4', [](V a, V b, V) { return B(S(a) >> std::min(U(b), 31u)); }},
      {"shr.s16 D2, A2, 3", '2', [](V a, V, V) { return B(static_cast<uint16_t>(static_cast<int16_t>(a) >> 3)); }},
      {"popc.b64 D4, A8", '4',
       [](V a, V, V) {
         V n = 0;
         for (; a != 0; a >>= 1) n += a & 1;
         return n;
       }},
      {"clz.b32 D4, A4", '4',
       [](V a, V, V) {
         V n = 0;
         while (n < 32 && !(a >> (31 - n) & 1)) ++n;
         return n;
       }},
      {"brev.b32 D4, A4", '4',
       [](V a, V, V) {
         V r = 0;
         for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
         return r;
       }},
      {"bfind.u32 D4, A4", '4',
       [](V a, V, V) {
         for (int i = 31; i >= 0; --i)
           if (a >> i & 1) return V(i);
         return V{0xffffffff};
       }},
      {"bfind.shiftamt.s32 D4, A4", '4',
       [](V a, V, V) {
         const uint32_t x = S(a) < 0 ? ~U(a) : U(a);
         for (int i = 31; i >= 0; --i)
           if (x >> i & 1) return V(31 - i);
         return V{0xffffffff};
       }},
      {"bfe.u32 D4, A4, B4, C4", '4',
       [](V a, V b, V c) {
         V r = 0;
         for (V i = 0; i < (c & 255) && i < 32; ++i) r |= (i + (b & 255) < 32 ? U(a) >> (i + (b & 255)) & 1 : 0) << i;
         return r;
       }},
      {"bfe.s32 D4, A4, B4, C4", '4',
       [](V a, V b, V c) {
         const V at = b & 255, n = c & 255, last = std::min<V>(at + n - 1, 31);
         const V sign = n == 0 ? 0 : U(a) >> last & 1;
         V r = 0;
         for (V i = 0; i < 32; ++i) r |= (i < n && i + at < 32 ? U(a) >> (i + at) & 1 : sign) << i;
         return r;
       }},
      {"bfi.b32 D4, A4, B4, C4, 5", '4',
       [](V a, V b, V c) {
         V r = U(b);
         for (V i = 0; i < 5; ++i) {
           const V to = (c & 255) + i;
           if (to < 32) r = (r & ~(V{1} << to)) | (a >> i & 1) << to;
         }
         return r;
       }},
      {"lop3.b32 D4, A4, B4, C4, 0x6a", '4',
       [](V a, V b, V c) {
         V r = 0;
         for (int i = 0; i < 32; ++i)
           r |= V{0x6a} >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) << 63 >> (63 - i);
         return r;
       }},
      {"prmt.b32 D4, A4, B4, C4", '4',
       [](V a, V b, V c) {
         V r = 0;
         for (int i = 0; i < 4; ++i) {
           const V n = c >> (4 * i) & 15, byte = (n & 4 ? b : a) >> (8 * (n & 3)) & 255;
           r |= (n & 8 ? (byte & 128 ? 255 : 0) : byte) << (8 * i);
         }
         return r;
       }},
      {"prmt.b32.rc16 D4, A4, B4, C4", '4',
       [](V a, V, V c) { return c & 1 ? (a >> 16 & 0xffff) * 0x10001 : (a & 0xffff) * 0x10001; }},
      {"shf.l.wrap.b32 D4, A4, B4, C4", '4',
       [](V a, V b, V c) {
         const V n = c & 31;
         return B(n == 0 ? U(b) : U(b) << n | U(a) >> (32 - n));
       }},
      {"shf.r.clamp.b32 D4, A4, B4, C4", '4',
       [](V a, V b, V c) {
         const V n = std::min<V>(U(c), 32);
         return B(n == 0 ? U(a) : n == 32 ? U(b) : U(a) >> n | U(b) << (32 - n));
       }},
      {"lop3.or.b32 X4|P0, A4, B4, C4, 0x80, P1", 'p',
       [](V a, V b, V c) { return B((U(a) & U(b) & U(c)) != 0 || (a & 1) != 0); }},
      {"lop3.and.b32 D4|P0, A4, B4, C4, 0xfe, !P2", '4', [](V a, V b, V c) { return B(U(a) | U(b) | U(c)); }},
      {"lop3.and.b32 X4|P0, A4, B4, C4, 0x96, !P2", 'p',
       [](V a, V b, V c) { return B((U(a) ^ U(b) ^ U(c)) != 0 && (b & 1) == 0); }},
      {"szext.clamp.s32 D4, A4, B4", '4',
       [](V a, V b, V) {
         const uint32_t n = std::min(U(b), 32u);
         V r = 0;
         for (uint32_t i = 0; i < 32 && n != 0; ++i) r |= (a >> std::min(i, n - 1) & 1) << i;
         return r;
       }},
      {"szext.wrap.u32 D4, A4, B4", '4', [](V a, V b, V) { return V{U(a)} & ((V{1} << (b & 31)) - 1); }},
      {"and.pred P0, P1, P2", 'p', [](V a, V b, V) { return a & b & 1; }},
      {"xor.pred P0, P1, !P2", 'p', [](V a, V b, V) { return (a ^ ~b) & 1; }},
      {"not.pred P0, P1", 'p', [](V a, V, V) { return ~a & 1; }},
      {"mov.b64 D8, {A4, B4}", '8', [](V a, V b, V) { return V{U(a)} | b << 32; }},
      {"mov.b64 {X4, D4}, A8", '4', [](V a, V, V) { return a >> 32; }},
      {"mov.b32 {D2, X2}, A4", '2', [](V a, V, V) { return a & 0xffff; }},
      {"selp.b32 D4, A4, B4, P1", '4', [](V a, V b, V) { return B(a & 1 ? U(a) : U(b)); }},
      {"selp.b64 D8, A8, B8, !P2", '8', [](V a, V b, V) { return b & 1 ? b : a; }},
      {"slct.b32.s32 D4, A4, B4, C4", '4', [](V a, V b, V c) { return B(S(c) >= 0 ? U(a) : U(b)); }},
      {"setp.lt.s32 P0, A4, B4", 'p', [](V a, V b, V) { return B(S(a) < S(b)); }},
      {"setp.hi.u32 P0, A4, B4", 'p', [](V a, V b, V) { return B(U(a) > U(b)); }},
      {"setp.ge.s64 P0, A8, B8", 'p', [](V a, V b, V) { return B(L(a) >= L(b)); }},
      {"setp.ne.b16 P0, A2, B2", 'p', [](V a, V b, V) { return B((a & 0xffff) != (b & 0xffff)); }},
      {"setp.gt.and.u32 P0, A4, B4, !P2", 'p', [](V a, V b, V) { return B(U(a) > U(b) && !(b & 1)); }},
      {"setp.le.xor.s32 P3|P0, A4, B4, P1", 'p', [](V a, V b, V) { return B((S(a) > S(b)) != ((a & 1) == 1)); }},
      {"set.eq.u32.s32 D4, A4, A4", '4', [](V, V, V) { return V{0xffffffff}; }},
      {"set.le.f16x2.f16x2 D4, A4, B4", '4',
       [](V a, V b, V) {
         const auto one = [](V x, V y) { return H(x) <= H(y) ? V{0x3c00} : V{0}; };
         return one(a >> 16 & 0xffff, b >> 16 & 0xffff) << 16 | one(a & 0xffff, b & 0xffff);
       }},
      {"set.gtu.bf16.bf16 D2, A2, B2", '2',
       [](V a, V b, V) { return Bf(a & 0xffff) <= Bf(b & 0xffff) ? V{0} : V{0x3f80}; }},
      {"@P1 mov.b32 X4, B4;\nmov.b32 D4, X4", '4', [](V a, V b, V) { return a & 1 ? V{U(b)} : V{0}; }},
  };
}

std::vector<Row> SingleRows() {
  return {
      {"add.f32 D4, A4, B4", '4', [](V a, V b, V) { return B(F(a) + F(b)); }},
      {"add.ftz.f32 D4, A4, B4", '4', [](V a, V b, V) { return B(Flushed(Flushed(F(a)) + Flushed(F(b)))); }},
      {"sub.rn.f32 D4, A4, B4", '4', [](V a, V b, V) { return B(F(a) - F(b)); }},
      {"mul.f32 D4, A4, 0f3FC00000", '4', [](V a, V, V) { return B(F(a) * 1.5f); }},
      {"mul.sat.f32 D4, A4, B4", '4',
       [](V a, V b, V) {
         const float r = F(a) * F(b);
         return r > 0 ? B(std::min(r, 1.0f)) : 0;
       }},
      {"fma.rn.f32 D4, A4, B4, C4", '4', [](V a, V b, V c) { return B(std::fmaf(F(a), F(b), F(c))); }},
      {"div.rn.f32 D4, A4, B4", '4', [](V a, V b, V) { return B(F(a) / F(b)); }},
      {"rcp.rn.f32 D4, A4", '4', [](V a, V, V) { return B(1 / F(a)); }},
      {"sqrt.rn.f32 D4, A4", '4', [](V a, V, V) { return B(std::sqrt(F(a))); }},
      {"neg.f32 D4, A4", '4', [](V a, V, V) { return V{U(a) ^ 0x80000000}; }},
      {"abs.f32 D4, A4", '4', [](V a, V, V) { return V{U(a) & 0x7fffffff}; }},
      {"min.f32 D4, A4, B4", '4', [](V a, V b, V) { return F(a) == F(b) ? V{U(a | b)} : B(std::fmin(F(a), F(b))); }},
      {"max.f32 D4, A4, B4", '4', [](V a, V b, V) { return F(a) == F(b) ? V{U(a & b)} : B(std::fmax(F(a), F(b))); }},
      {"max.NaN.f32 D4, A4, B4", '4',
       [](V a, V b, V) {
         return F(a) != F(a) || F(b) != F(b) ? V{0x7fffffff} : F(a) == F(b) ? V{U(a & b)} : B(std::max(F(a), F(b)));
       }},
      {"copysign.f32 D4, A4, B4", '4', [](V a, V b, V) { return V{(U(a) & 0x80000000) | (U(b) & 0x7fffffff)}; }},
      {"setp.lt.f32 P0, A4, B4", 'p', [](V a, V b, V) { return B(F(a) < F(b)); }},
      {"setp.geu.f32 P0, A4, B4", 'p', [](V a, V b, V) { return B(!(F(a) < F(b))); }},
      {"setp.ne.f32 P0, A4, B4", 'p', [](V a, V b, V) { return B(F(a) < F(b) || F(a) > F(b)); }},
      {"setp.neu.f32 P0, A4, B4", 'p', [](V a, V b, V) { return B(!(F(a) == F(b))); }},
      {"setp.nan.f32 P0, A4, B4", 'p', [](V a, V b, V) { return B(F(a) != F(a) || F(b) != F(b)); }},
      {"testp.subnormal.f32 P0, A4", 'p', [](V a, V, V) { return B((U(a) & 0x7f800000) == 0); }},
      {"ex2.approx.f32 D4, A4", '4',
       [](V a, V, V) { return B(static_cast<float>(std::exp2(D(B(static_cast<double>(F(a))))))); }},
      {"lg2.approx.ftz.f32 D4, A4", '4',
       [](V a, V, V) { return B(static_cast<float>(std::log2(static_cast<double>(Flushed(F(a)))))); }},
      {"rsqrt.approx.f32 D4, A4", '4',
       [](V a, V, V) { return B(static_cast<float>(1 / std::sqrt(static_cast<double>(F(a))))); }},
  };
}

std::vector<Row> DoubleRows() {
  return {
      {"add.f64 D8, A8, B8", '8', [](V a, V b, V) { return B(D(a) + D(b)); }},
      {"mul.rn.f64 D8, A8, B8", '8', [](V a, V b, V) { return B(D(a) * D(b)); }},
      {"fma.rn.f64 D8, A8, B8, C8", '8', [](V a, V b, V c) { return B(std::fma(D(a), D(b), D(c))); }},
      {"div.rn.f64 D8, A8, B8", '8', [](V a, V b, V) { return B(D(a) / D(b)); }},
      {"sqrt.rn.f64 D8, A8", '8', [](V a, V, V) { return B(std::sqrt(D(a))); }},
      {"max.f64 D8, A8, B8", '8', [](V a, V b, V) { return D(a) == D(b) ? a & b : B(std::fmax(D(a), D(b))); }},
      {"setp.gtu.f64 P0, A8, B8", 'p', [](V a, V b, V) { return B(!(D(a) <= D(b))); }},
      {"cvt.rn.f32.f64 D4, A8", '4', [](V a, V, V) { return B(static_cast<float>(D(a))); }},
      {"cvt.f64.f32 D8, A4", '8', [](V a, V, V) { return B(static_cast<double>(F(a))); }},
      // 20 bits of the fraction, from the upper word.
      {"rcp.approx.ftz.f64 D8, A8", '8',
       [](V a, V, V) {
         const auto flush = [](double x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0, x) : x; };
         return B(flush(1 / flush(D(a & 0xffffffff00000000)))) & 0xffffffff00000000;
       }},
  };
}

double Whole(double x, int mode) {
  const int before = std::fegetround();
  std::fesetround(mode);
  const double r = std::rint(x);
  std::fesetround(before);
  return r;
}

int64_t Clamped(double x, double low, double high) {
  return x != x ? 0 : static_cast<int64_t>(std::clamp(x, low, high));
}

std::vector<Row> ConvertRows() {
  return {
      {"cvt.s64.s32 D8, A4", '8', [](V a, V, V) { return B(int64_t{S(a)}); }},
      {"cvt.u64.u32 D8, A4", '8', [](V a, V, V) { return V{U(a)}; }},
      {"cvt.u32.u64 D4, A8", '4', [](V a, V, V) { return V{U(a)}; }},
      {"cvt.u16.u32 D2, A4", '2', [](V a, V, V) { return a & 0xffff; }},
      {"cvt.s32.s8 D4, A4", '4', [](V a, V, V) { return B(int32_t{static_cast<int8_t>(a)}); }},
      {"cvt.u32.u8 D4, A2", '4', [](V a, V, V) { return a & 255; }},
      {"cvt.s8.s32 D4, A4", '4', [](V a, V, V) { return B(int32_t{static_cast<int8_t>(a)}); }},
      {"cvt.sat.u8.s32 D4, A4", '4', [](V a, V, V) { return B(std::clamp(S(a), 0, 255)); }},
      {"cvt.rn.f32.s32 D4, A4", '4', [](V a, V, V) { return B(static_cast<float>(S(a))); }},
      {"cvt.rn.f32.u64 D4, A8", '4', [](V a, V, V) { return B(static_cast<float>(a)); }},
      {"cvt.rn.f64.s64 D8, A8", '8', [](V a, V, V) { return B(static_cast<double>(L(a))); }},
      {"cvt.rzi.s32.f32 D4, A4", '4',
       [](V a, V, V) { return B(static_cast<int32_t>(Clamped(std::trunc(F(a)), INT32_MIN, INT32_MAX))); }},
      {"cvt.rni.u32.f32 D4, A4", '4',
       [](V a, V, V) { return B(static_cast<uint32_t>(Clamped(Whole(F(a), FE_TONEAREST), 0, UINT32_MAX))); }},
      {"cvt.rmi.s32.f64 D4, A8", '4',
       [](V a, V, V) { return B(static_cast<int32_t>(Clamped(std::floor(D(a)), INT32_MIN, INT32_MAX))); }},
      {"cvt.rpi.f32.f32 D4, A4", '4', [](V a, V, V) { return B(std::ceil(F(a))); }},
      {"cvt.sat.f32.f32 D4, A4", '4', [](V a, V, V) { return F(a) > 0 ? B(std::min(F(a), 1.0f)) : 0; }},
      {"cvt.f32.f16 D4, A2", '4', [](V a, V, V) { return B(H(a)); }},
      {"cvt.f32.bf16 D4, A2", '4', [](V a, V, V) { return B(Bf(a)); }},
      // Rounding by adding half a unit to the bits.
      {"cvt.rn.bf16.f32 D2, A4", '2',
       [](V a, V, V) { return F(a) != F(a) ? V{0x7fff} : (U(a) + V{0x7fff} + (U(a) >> 16 & 1)) >> 16; }},
      {"cvt.rz.bf16.f32 D2, A4", '2', [](V a, V, V) { return F(a) != F(a) ? V{0x7fff} : V{U(a) >> 16}; }},
      {"cvt.rn.bf16x2.f32 D4, A4, B4", '4',
       [](V a, V b, V) {
         const auto round = [](V x) {
           return F(x) != F(x) ? V{0x7fff} : ((U(x) + V{0x7fff} + (U(x) >> 16 & 1)) >> 16) & 0xffff;
         };
         return round(a) << 16 | round(b);
       }},
      {"cvt.rna.tf32.f32 D4, A4", '4',
       [](V a, V, V) {
         return F(a) != F(a) ? V{0x7fffffff} : std::isinf(F(a)) ? V{U(a)} : V{U((U(a) + 0x1000) & 0xffffe000)};
       }},
  };
}

// The name after the registers' letters becomes a register, as in "A4".
std::string Body(const Row& row) {
  std::string body =
      ".reg .b16 A2, B2, C2, D2, X2;\n.reg .b32 A4, B4, C4, D4, X4;\n.reg .b64 A8, B8, C8, D8, X8;\n.reg .pred P0, P1, "
      "P2, P3;\n"
      "mul.wide.u32 %rd5, %r0, 8;\nadd.u64 %rd6, %rd1, %rd5;\nadd.u64 %rd7, %rd2, %rd5;\nadd.u64 %rd8, %rd3, "
      "%rd5;\nadd.u64 %rd9, %rd0, %rd5;\n"
      "mov.b32 X4, 0;\nmov.b64 D8, 0;\n";
  for (const auto& [letter, address] : {std::pair{"A", "%rd6"}, {"B", "%rd7"}, {"C", "%rd8"}}) {
    for (const auto& [bytes, type] : {std::pair{"2", "u16"}, {"4", "u32"}, {"8", "u64"}}) {
      body += std::string("ld.global.") + type + " " + letter + bytes + ", [" + address + "];\n";
    }
  }
  body += "and.b32 D4, A4, 1;\nsetp.ne.u32 P1, D4, 0;\nand.b32 D4, B4, 1;\nsetp.ne.u32 P2, D4, 0;\n" + row.text + ";\n";
  switch (row.result) {
    case 'p':
      return body + "selp.b64 D8, 1, 0, P0;\nst.global.u64 [%rd9], D8;\n";
    case '2':
      return body + "st.global.u16 [%rd9], D2;\n";
    case '4':
      return body + "st.global.u32 [%rd9], D4;\n";
    default:
      return body + "st.global.u64 [%rd9], D8;\n";
  }
}

// Special values of every type, shifts, small numbers, and random ones.
std::vector<uint64_t> Values(uint64_t seed) {
  constexpr uint64_t kSpecial[] = {0,
                                   1,
                                   2,
                                   31,
                                   32,
                                   33,
                                   0x80000000,
                                   0x7fffffff,
                                   0xffffffff,
                                   0x3f800000,
                                   0xbf800000,
                                   0x7f800000,
                                   0xff800000,
                                   0x7fc00000,
                                   0x00000001 + (uint64_t{1} << 52),
                                   0x80400000,
                                   0x00800000,
                                   0x3c003c00,
                                   0x7c00fc00,
                                   0x3ff0000000000000,
                                   0x7ff0000000000000,
                                   0xfff8000000000000,
                                   0x8000000000000000,
                                   ~uint64_t{0}};
  std::mt19937_64 rng(seed);
  std::vector<uint64_t> values(kThreads);
  for (uint64_t& v : values) {
    switch (rng() % 4) {
      case 0:
        v = kSpecial[rng() % std::size(kSpecial)];
        break;
      case 1:
        v = B(static_cast<float>(
            std::ldexp(static_cast<double>(rng() % 4096) - 2048, static_cast<int>(rng() % 20) - 14)));
        break;
      case 2:
        v = B(std::ldexp(static_cast<double>(rng() % 4096) - 2048, static_cast<int>(rng() % 60) - 30));
        break;
      default:
        v = rng() >> (rng() % 60);
    }
  }
  return values;
}

bool IsNan(uint64_t bits, char result) { return result == '8' ? D(bits) != D(bits) : F(bits) != F(bits); }

void Check(const std::vector<Row>& rows) {
  const std::vector<uint64_t> a = Values(1), b = Values(2), c = Values(3);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    TestMemory memory;
    const uint64_t out = memory.Allocate(kThreads * 8, 256);
    const uint64_t in[] = {memory.Put(std::span<const uint64_t>(a)), memory.Put(std::span<const uint64_t>(b)),
                           memory.Put(std::span<const uint64_t>(c))};
    const Outcome outcome =
        RunText(KernelText(Body(row)), memory, {out, in[0], in[1], in[2]}, {{1, 1, 1}, {kThreads, 1, 1}, 0});
    for (const Report& r : outcome.reports) ADD_FAILURE() << r.text;
    const std::vector<uint64_t> got = memory.Get<uint64_t>(out, kThreads);
    const uint64_t mask = row.result == '2' ? 0xffff : row.result == '4' ? 0xffffffff : ~uint64_t{0};
    for (size_t i = 0; i < kThreads; ++i) {
      const uint64_t want = row.want(a[i], b[i], c[i]) & mask;
      // The payload of fp64's not-a-number is the processor's.
      if (row.result == '8' && IsNan(want, '8') && IsNan(got[i], '8')) continue;
      ASSERT_EQ(got[i], want) << std::hex << a[i] << " " << b[i] << " " << c[i];
    }
  }
}

TEST(PtxInstructions, Integers) { Check(IntegerRows()); }
TEST(PtxInstructions, BitsAndPredicates) { Check(BitRows()); }
TEST(PtxInstructions, SinglePrecision) { Check(SingleRows()); }
TEST(PtxInstructions, DoublePrecision) { Check(DoubleRows()); }
TEST(PtxInstructions, Conversions) { Check(ConvertRows()); }

// 1 + 2^-30 and -1 - 2^-30 round to a neighbor of one by mode.
TEST(PtxInstructions, RoundingModes) {
  const struct {
    const char* mode;
    float positive, negative;
  } rows[] = {{"rn", 1, -1}, {"rz", 1, -1}, {"rm", 1, std::nextafterf(-1, -2)}, {"rp", std::nextafterf(1, 2), -1}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.mode);
    TestMemory memory;
    const uint64_t out = memory.Allocate(64, 256);
    const std::string op = std::string("add.") + row.mode + ".f32 ";
    RunText(KernelText("mov.f32 %f1, 0f30800000;\nmov.f32 %f2, 0fB0800000;\n" + op + "%f3, %f1, 0f3F800000;\n" + op +
                       "%f4, %f2, 0fBF800000;\nst.global.v2.f32 [%rd0], {%f3, %f4};\n"),
            memory, {out}, {{1, 1, 1}, {1, 1, 1}, 0});
    EXPECT_EQ(memory.Get<float>(out, 2), (std::vector<float>{row.positive, row.negative}));
  }
}

// All fp16 values: to fp32, back, and products rounded once.
TEST(PtxInstructions, HalvesOfEveryValue) {
  TestMemory memory;
  const uint64_t out = memory.Allocate(65536 * 8, 256);
  const Outcome outcome = RunText(KernelText(R"(
mov.u32 %r1, %ctaid.x;
mad.lo.u32 %r1, %r1, 256, %r0;
cvt.u16.u32 %h1, %r1;
cvt.f32.f16 %f1, %h1;
cvt.rn.f16.f32 %h2, %f1;
mov.b16 %h3, 0x3555;
fma.rn.f16 %h4, %h1, %h3, %h3;
add.bf16 %h5, %h1, %h3;
mov.b64 %rd6, {%h2, %h4, %h5, %h1};
mul.wide.u32 %rd5, %r1, 8;
add.u64 %rd5, %rd0, %rd5;
st.global.u64 [%rd5], %rd6;
)"),
                                  memory, {out}, {{256, 1, 1}, {256, 1, 1}, 0});
  EXPECT_EQ(Kinds(outcome), "");
  const std::vector<uint16_t> got = memory.Get<uint16_t>(out, 65536 * 4);
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto x = static_cast<_Float16>(0);
    (void)x;
    const float value = H(i);
    ASSERT_EQ(got[4 * i], value != value ? 0x7fff : i);
    // A product of two halves and a half fit into fp64.
    const double exact = static_cast<double>(value) * H(0x3555) + H(0x3555);
    ASSERT_EQ(got[4 * i + 1], Half::From(exact)) << i;
    const float sum = Bf(i) + Bf(0x3555);
    ASSERT_EQ(
        got[4 * i + 2],
        sum != sum ? 0x7fff : (std::bit_cast<uint32_t>(sum) + 0x7fff + (std::bit_cast<uint32_t>(sum) >> 16 & 1)) >> 16)
        << i;
  }
}

// Subnormal halves become zeros of their sign with .ftz, as operands and as results. Subnormal bits have an exponent of zeros.
TEST(PtxInstructions, HalvesFlush) {
  TestMemory memory;
  const uint64_t out = memory.Allocate(65536 * 8, 256);
  const Outcome outcome = RunText(KernelText(R"(
mov.u32 %r1, %ctaid.x;
mad.lo.u32 %r1, %r1, 256, %r0;
cvt.u16.u32 %h1, %r1;
mul.rn.ftz.f16 %h2, %h1, 0x3c00;
mul.rn.f16 %h3, %h1, 0x3800;
mul.rn.ftz.f16 %h4, %h1, 0x3800;
mov.b64 %rd6, {%h2, %h3, %h4, %h1};
mul.wide.u32 %rd5, %r1, 8;
add.u64 %rd5, %rd0, %rd5;
st.global.u64 [%rd5], %rd6;
)"),
                                  memory, {out}, {{256, 1, 1}, {256, 1, 1}, 0});
  EXPECT_EQ(Kinds(outcome), "");
  const std::vector<uint16_t> got = memory.Get<uint16_t>(out, 65536 * 4);
  const auto flushed = [](uint32_t x) { return (x & 0x7c00) == 0 ? x & 0x8000 : x; };
  for (uint32_t i = 0; i < 65536; ++i) {
    const bool nan = H(i) != H(i);
    ASSERT_EQ(got[4 * i], nan ? 0x7fff : flushed(i)) << i;
    ASSERT_EQ(got[4 * i + 2], (i & 0x7c00) == 0 ? i & 0x8000 : flushed(got[4 * i + 1])) << i;
  }
}

TEST(PtxInstructions, ClocksRun) {
  TestMemory memory;
  const uint64_t out = memory.Allocate(64, 256);
  const Outcome outcome =
      RunText(KernelText("mov.u32 %r1, %clock;\nmov.u64 %rd5, %globaltimer;\nmov.u64 %rd6, %clock64;\nmov.u32 %r2, "
                         "%clock;\nsub.u32 %r3, %r2, %r1;\nsub.u64 %rd7, %rd6, %rd5;\ncvt.u32.u64 %r4, "
                         "%rd7;\nst.global.v2.u32 [%rd0], {%r3, %r4};\n"),
              memory, {out}, {{1, 1, 1}, {32, 1, 1}, 0});
  EXPECT_EQ(Kinds(outcome), "");
  EXPECT_EQ(memory.Get<uint32_t>(out, 2), (std::vector<uint32_t>{3, 1}));
}

TEST(PtxInstructions, ApproximationsAreOffByUpToTwoUnitsIfAsked) {
  std::vector<float> values;
  for (int i = 0; i < 256; ++i) values.push_back(0.01f + static_cast<float>(i) * 0.037f);
  Options options;
  options.approximate = true;
  int moved = 0;
  for (const bool off : {false, true}) {
    options.approximate = off;
    TestMemory memory;
    const uint64_t in = memory.Put(std::span<const float>(values)), out = memory.Allocate(1024, 256);
    RunText(KernelText("mul.wide.u32 %rd5, %r0, 4;\nadd.u64 %rd6, %rd1, %rd5;\nadd.u64 %rd7, %rd0, "
                       "%rd5;\nld.global.f32 %f1, [%rd6];\nex2.approx.f32 %f2, %f1;\nst.global.f32 [%rd7], %f2;\n"),
            memory, {out, in}, {{1, 1, 1}, {256, 1, 1}, 0}, options);
    const std::vector<uint32_t> got = memory.Get<uint32_t>(out, 256);
    for (int i = 0; i < 256; ++i) {
      const auto exact = static_cast<int64_t>(B(static_cast<float>(std::exp2(static_cast<double>(values[i])))));
      const int64_t distance = std::abs(static_cast<int64_t>(got[i]) - exact);
      EXPECT_LE(distance, off ? 2 : 0);
      moved += distance != 0;
    }
  }
  EXPECT_GT(moved, 128);
}

}  // namespace
}  // namespace ingot::standin::ptx
