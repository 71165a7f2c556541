#include <cstdint>

#include "standin/runtime/fatbin.h"

namespace ingot::standin {
namespace {

constexpr size_t kLeastMatch = 4, kEscape = 15;

// Reads a block's bytes; after its end, `ended` is true.
struct Reader {
  std::span<const std::byte> rest;
  bool ended = false;

  size_t Byte() {
    if (rest.empty()) {
      ended = true;
      return 0;
    }
    const auto byte = static_cast<size_t>(rest[0]);
    rest = rest.subspan(1);
    return byte;
  }
  // A length of four bits, continued by bytes while they are 255.
  size_t Length(size_t nibble) {
    size_t length = nibble;
    if (nibble != kEscape) return length;
    size_t more = 0;
    do {
      more = Byte();
      length += more;
    } while (more == 255 && !ended);
    return length;
  }
};

}  // namespace

std::optional<std::string> DecodeLz4(std::span<const std::byte> block, size_t bytes) {
  std::string out;
  Reader reader{block};
  while (!reader.rest.empty()) {
    const size_t token = reader.Byte();
    const size_t literals = reader.Length(token >> 4);
    if (reader.ended || literals > reader.rest.size() || literals > bytes - out.size()) return std::nullopt;
    out.append(reinterpret_cast<const char*>(reader.rest.data()), literals);
    reader.rest = reader.rest.subspan(literals);
    if (reader.rest.empty()) break;  // the last sequence has no match
    const size_t low = reader.Byte();
    const size_t distance = low | reader.Byte() << 8;
    const size_t match = reader.Length(token & 15) + kLeastMatch;
    if (reader.ended || distance == 0 || distance > out.size() || match > bytes - out.size()) return std::nullopt;
    for (size_t i = 0; i < match; ++i) out.push_back(out[out.size() - distance]);  // may overlap itself
  }
  if (out.size() != bytes) return std::nullopt;
  return out;
}

}  // namespace ingot::standin
