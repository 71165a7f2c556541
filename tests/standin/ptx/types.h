// PTX's fundamental types and state spaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ingot::standin::ptx {

enum class Type : uint8_t {
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kF16,
  kF16x2,
  kBF16,
  kBF16x2,
  kTF32,
  kF32,
  kF64,
  kPred,
};

enum class Space : uint8_t { kGeneric, kGlobal, kConst, kShared, kLocal, kParam, kRegister };

// Bytes of a value; 4 for a predicate, whose 32 lanes are the bits of one word.
size_t SizeOf(Type type);
bool IsSigned(Type type);
bool IsFloat(Type type);
std::optional<Type> ParseType(std::string_view word);    // "u32"
std::optional<Space> ParseSpace(std::string_view word);  // "shared", "shared::cta"

}  // namespace ingot::standin::ptx
