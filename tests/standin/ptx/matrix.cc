// ldmatrix, movmatrix and mma.sync of sm_80. Layouts of the fragments: PTX ISA, "Matrix fragments for mma".
#include <algorithm>
#include <bit>
#include <cmath>

#include "standin/ptx/access.h"
#include "standin/ptx/block.h"
#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"
#include "standin/ptx/matrix_sum.h"

namespace ingot::standin::ptx {
namespace {

bool CheckWarp(Warp& w, uint32_t lanes) {
  if (lanes == kAllLanes) return true;
  w.Fault("partial warp", std::countr_zero(~lanes), "the lane does not take part, and all 32 must");
  return false;
}

// Matrix i of 8x8 halves has the addresses of its rows in lanes 8 i to 8 i + 7. Lane l gets the elements 2 (l % 4) and the next of row l / 4.
void LoadMatrices(Warp& w, const Instruction& in, uint32_t lanes) {
  if (!CheckWarp(w, lanes)) return;
  Places p;
  Addresses(w, in, lanes, p.addresses);
  const uint32_t rows = in.count == 4 ? kAllLanes : (1u << (8 * in.count)) - 1;
  const uint32_t found = Locate(w, {AccessKind::kRead, in.space, 16, true, false}, rows, p);
  for (uint32_t matrix = 0; matrix < in.count; ++matrix) {
    uint16_t elements[8][8];
    std::memset(elements, 0xff, sizeof(elements));
    for (uint32_t row = 0; row < 8; ++row) {
      if (found >> (8 * matrix + row) & 1) std::memcpy(elements[row], p.at[8 * matrix + row], 16);
    }
    uint32_t* const to = w.Out<uint32_t>(in.list[matrix]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      const uint16_t low = in.target ? elements[column][row] : elements[row][column];
      const uint16_t high = in.target ? elements[column + 1][row] : elements[row][column + 1];
      to[lane] = static_cast<uint32_t>(high) << 16 | low;
    }
  }
}

bool DecodeLoadMatrices(Decoder& d, const Statement& s, Instruction& in) {
  if (!s.Has("m8n8") || !s.Has("b16")) d.Fail("only matrices m8n8 of b16 are built");
  for (const std::string_view word : s.words) {
    if (const auto space = ParseSpace(word)) in.space = *space;
  }
  d.Address(s.operands.at(1), in);
  std::vector<WideSlot> list;
  const OperandSyntax& to = s.operands[0];
  if (to.kind == OperandSyntax::Kind::kVector) {
    for (const OperandSyntax& o : to.parts) list.push_back(d.OutWide(o, Type::kB32));
  } else {
    list.push_back(d.OutWide(to, Type::kB32));
  }
  if (list.size() != 1 && list.size() != 2 && list.size() != 4) d.Fail("expected 1, 2 or 4 registers");
  in.target = s.Has("trans");
  d.KeepList(in, std::move(list));
  in.execute = LoadMatrices;
  return true;
}

void TransposeMatrix(Warp& w, const Instruction& in, uint32_t lanes) {
  if (!CheckWarp(w, lanes)) return;
  const uint16_t* const a = w.In<uint16_t>(in.a);
  uint16_t result[64];
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 8; ++column) result[8 * row + column] = a[8 * column + row];
  }
  std::memcpy(w.Out<uint16_t>(in.d), result, sizeof(result));
}

bool DecodeTransposeMatrix(Decoder& d, const Statement& s, Instruction& in) {
  in.execute = TransposeMatrix;
  d.Fill(s, in, Type::kB32, 1);
  return true;
}

// The operands of d = a b + c as whole matrices: a [16][k], b transposed [8][k], c [16][8].
struct Fragments {
  float a[16][16], b[8][16], c[16][8];
};

float Element(uint32_t bits, MatrixType type, int part) {
  switch (type) {
    case MatrixType::kHalf:
      return Half::ToFloat(static_cast<uint16_t>(bits >> (16 * part)));
    case MatrixType::kBfloat:
      return Bfloat::ToFloat(static_cast<uint16_t>(bits >> (16 * part)));
    default:
      return std::bit_cast<float>(bits & 0xffffe000);  // a card reads 19 bits of tf32
  }
}

// A register of `a` or `b` holds `pack` elements along the depth. Register r of a lane: row lane / 4 (+ 8 if r is odd, for a), depth from
// (lane % 4) pack on, later registers 4 pack further.
void Gather(const Warp& w, const Instruction& in, const MatrixShape& shape, Fragments& f) {
  const int pack = shape.type == MatrixType::kTf32 ? 1 : 2;
  const int a_registers = shape.depth * 16 / pack / kLanes, b_registers = a_registers / 2;
  for (int r = 0; r < a_registers; ++r) {
    const uint32_t* const from = w.In<uint32_t>(in.list[4 + r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < pack; ++i)
        f.a[lane / 4 + 8 * (r % 2)][lane % 4 * pack + r / 2 * 4 * pack + i] = Element(from[lane], shape.type, i);
    }
  }
  for (int r = 0; r < b_registers; ++r) {
    const uint32_t* const from = w.In<uint32_t>(in.list[4 + a_registers + r]);
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < pack; ++i)
        f.b[lane / 4][lane % 4 * pack + r * 4 * pack + i] = Element(from[lane], shape.type, i);
    }
  }
}

// Accumulators of fp32 have a register per element, those of fp16 two elements per register.
void GatherSums(const Warp& w, const Instruction& in, const MatrixShape& shape, int first, Fragments& f) {
  for (int i = 0; i < 4; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) {
      float& to = f.c[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2];
      to = shape.half_sums ? Half::ToFloat(w.In<uint16_t>(in.list[first + i / 2])[2 * lane + i % 2])
                           : w.In<float>(in.list[first + i])[lane];
    }
  }
}

void Multiply(Warp& w, const Instruction& in, uint32_t lanes) {
  if (!CheckWarp(w, lanes)) return;
  MatrixShape shape;
  std::memcpy(&shape, &in.immediate, sizeof(shape));
  Fragments f;
  Gather(w, in, shape, f);
  GatherSums(w, in, shape, static_cast<int>(in.target), f);
  const bool ascending = w.block().launch().options.sum == SumOrder::kAscending;
  float result[16][8];
  MultiplyAdd(shape, ascending, f.a, f.b, f.c, result);
  for (int i = 0; i < 4; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float x = result[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2];
      if (shape.half_sums)
        w.Out<uint16_t>(in.list[i / 2])[2 * lane + i % 2] = Half::From(x);
      else
        w.Out<float>(in.list[i])[lane] = x;
    }
  }
}

struct Row {
  std::string_view shape, type;
  MatrixType matrix_type;
  uint8_t depth;
};

constexpr Row kShapes[] = {{"m16n8k16", "f16", MatrixType::kHalf, 16},    {"m16n8k8", "f16", MatrixType::kHalf, 8},
                           {"m16n8k16", "bf16", MatrixType::kBfloat, 16}, {"m16n8k8", "bf16", MatrixType::kBfloat, 8},
                           {"m16n8k8", "tf32", MatrixType::kTf32, 8},     {"m16n8k4", "tf32", MatrixType::kTf32, 4}};

void AddParts(Decoder& d, const OperandSyntax& o, size_t count, bool out, std::vector<WideSlot>& list) {
  if (o.kind != OperandSyntax::Kind::kVector || o.parts.size() != count)
    d.Fail("expected a vector of " + std::to_string(count));
  for (const OperandSyntax& part : o.parts) {
    list.push_back(out ? d.OutWide(part, Type::kB32) : d.InWide(part, Type::kB32));
    if (list.back().bytes != 4) d.Fail("a register of a fragment has not 32 bits");
  }
}

// m8n8k4 of fp64: a[8][4] and b[4][8] have an element in each lane, c and d two. Row and depth of a: lane / 4 and lane % 4; depth and column of
// b: lane % 4 and lane / 4; row and first column of c: lane / 4 and lane % 4 * 2. A chain of fused multiplications over the depth.
void MultiplyDoubles(Warp& w, const Instruction& in, uint32_t lanes) {
  if (!CheckWarp(w, lanes)) return;
  const double *a = w.In<double>(in.a), *b = w.In<double>(in.b);
  double result[2][kLanes];
  for (int i = 0; i < 2; ++i) {
    const double* const c = w.In<double>(in.list[2 + i]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4, column = lane % 4 * 2 + i;
      double sum = c[lane];
      for (int k = 0; k < 4; ++k) sum = std::fma(a[row * 4 + k], b[column * 4 + k], sum);
      result[i][lane] = sum;
    }
  }
  for (int i = 0; i < 2; ++i) std::memcpy(w.Out<double>(in.list[i]), result[i], sizeof(result[i]));
}

bool DecodeDoubles(Decoder& d, const Statement& s, Instruction& in) {
  std::vector<WideSlot> list;
  const auto part = [&](size_t operand, size_t i) -> const OperandSyntax& {
    return s.operands.at(operand).parts.at(i);
  };
  for (const size_t i : {0, 1}) list.push_back(d.OutWide(part(0, i), Type::kF64));
  for (const size_t i : {0, 1}) list.push_back(d.InWide(part(3, i), Type::kF64));
  for (const WideSlot& slot : list) {
    if (slot.bytes != 8) d.Fail("a register of a fragment has not 64 bits");
  }
  in.a = d.In(part(1, 0), Type::kF64);
  in.b = d.In(part(2, 0), Type::kF64);
  d.KeepList(in, std::move(list));
  in.execute = MultiplyDoubles;
  return true;
}

// mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c. The list has four places for d, then a, b and c.
bool DecodeMultiply(Decoder& d, const Statement& s, Instruction& in) {
  const size_t n = s.words.size();
  if (n != 10) d.Fail("this form is not built");
  if (s.words[3] == "m8n8k4" && s.words[n - 1] == "f64") return DecodeDoubles(d, s, in);
  for (const Row& row : kShapes) {
    if (row.shape != s.words[3] || row.type != s.words[n - 3] || row.type != s.words[n - 2]) continue;
    const MatrixShape shape{row.matrix_type, row.depth, s.words[n - 1] == "f16"};
    if (s.words[n - 4] != s.words[n - 1] || (!shape.half_sums && s.words[n - 1] != "f32")) break;
    const size_t sums = shape.half_sums ? 2 : 4;
    const size_t a = row.depth * 16 / (row.matrix_type == MatrixType::kTf32 ? 1 : 2) / kLanes;
    std::vector<WideSlot> list;
    AddParts(d, s.operands.at(0), sums, true, list);
    list.resize(4);
    AddParts(d, s.operands.at(1), a, false, list);
    AddParts(d, s.operands.at(2), a / 2, false, list);
    in.target = static_cast<uint32_t>(list.size());
    AddParts(d, s.operands.at(3), sums, false, list);
    static_assert(sizeof(shape) <= sizeof(in.immediate));
    std::memcpy(&in.immediate, &shape, sizeof(shape));
    d.KeepList(in, std::move(list));
    in.execute = Multiply;
    return true;
  }
  d.Fail("this shape of mma is not built");
}

}  // namespace

std::span<const Rule> MatrixRules() {
  static constexpr Rule kRules[] = {
      {"ldmatrix", DecodeLoadMatrices}, {"movmatrix", DecodeTransposeMatrix}, {"mma", DecodeMultiply}};
  return kRules;
}

}  // namespace ingot::standin::ptx
