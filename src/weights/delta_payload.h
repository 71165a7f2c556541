// Code shared by the delta encoder and decoder: the grammar's constants, and integers in payloads (delta.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "proto/weights.pb.h"

namespace ingot::weights {

inline constexpr char kRaw = 0;
inline constexpr char kZstd = 1;
inline constexpr size_t kPayloadOverhead = 1 + 8;  // form and checksum
inline constexpr int64_t kWordBytes = 2;           // size of a BF16 word

void AppendInt(uint64_t value, int bytes, std::string& out);
uint64_t ReadInt(std::string_view bytes, size_t size = 8);

std::span<const std::byte> AsBytes(std::string_view text);

// Returns the checksum at the end of the payload, which also covers the tensor index and coding.
uint64_t PayloadChecksum(const v1::TensorDelta& delta, std::string_view form_and_body);

// Returns whether both have tensors with the same names, dtypes, and shapes.
bool SameLayout(const v1::Manifest& a, const v1::Manifest& b);

}  // namespace ingot::weights
