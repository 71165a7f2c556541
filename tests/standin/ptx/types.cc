#include "standin/ptx/types.h"

#include <iterator>

namespace ingot::standin::ptx {
namespace {

struct TypeRow {
  std::string_view name;
  uint8_t bytes;
  bool is_signed, is_float;
};

// In the order of Type.
constexpr TypeRow kTypes[] = {
    {"u8", 1, false, false},    {"u16", 2, false, false}, {"u32", 4, false, false}, {"u64", 8, false, false},
    {"s8", 1, true, false},     {"s16", 2, true, false},  {"s32", 4, true, false},  {"s64", 8, true, false},
    {"b8", 1, false, false},    {"b16", 2, false, false}, {"b32", 4, false, false}, {"b64", 8, false, false},
    {"b128", 16, false, false}, {"f16", 2, true, true},   {"f16x2", 4, true, true}, {"bf16", 2, true, true},
    {"bf16x2", 4, true, true},  {"tf32", 4, true, true},  {"f32", 4, true, true},   {"f64", 8, true, true},
    {"pred", 4, false, false},
};

struct SpaceRow {
  std::string_view name;
  Space space;
};

constexpr SpaceRow kSpaces[] = {
    {"global", Space::kGlobal}, {"const", Space::kConst},        {"shared", Space::kShared},
    {"local", Space::kLocal},   {"shared::cta", Space::kShared}, {"param", Space::kParam},
    {"reg", Space::kRegister},  {"param::entry", Space::kParam}, {"param::func", Space::kParam},
};

const TypeRow& Row(Type type) { return kTypes[static_cast<size_t>(type)]; }

}  // namespace

size_t SizeOf(Type type) { return Row(type).bytes; }
bool IsSigned(Type type) { return Row(type).is_signed; }
bool IsFloat(Type type) { return Row(type).is_float; }

std::optional<Type> ParseType(std::string_view word) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].name == word) return static_cast<Type>(i);
  }
  return std::nullopt;
}

std::optional<Space> ParseSpace(std::string_view word) {
  for (const SpaceRow& row : kSpaces) {
    if (row.name == word) return row.space;
  }
  return std::nullopt;
}

}  // namespace ingot::standin::ptx
