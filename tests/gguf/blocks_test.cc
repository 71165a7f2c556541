#include "gguf/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "test_paths.h"

namespace ingot::gguf {
namespace {

std::vector<uint8_t> FromHex(std::string_view text) {
  std::vector<uint8_t> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(std::stoi(std::string(text.substr(2 * i, 2)), nullptr, 16));
  }
  return bytes;
}

base::json::value Golden() {
  const auto text = base::ReadFile(INGOT_SOURCE_DIR "/tests/gguf/testdata/blocks.json");
  auto json = base::ParseJson(*text);
  return *std::move(json);
}

// blocks.json is written by make_goldens.py with the `gguf` Python package.
TEST(Blocks, AreDecodedAsTheReferencePackageDoesBitForBit) {
  const base::json::value golden = Golden();
  ASSERT_EQ(golden.get_object().size(), BlockTypes().size());
  for (const BlockType& type : BlockTypes()) {
    const auto* entry = base::Find(golden, type.name);
    ASSERT_NE(entry, nullptr) << type.name;
    const auto bytes = FromHex(base::Find(*entry, "bytes")->get_string());
    const auto expected = FromHex(base::Find(*entry, "values")->get_string());
    ASSERT_EQ(bytes.size() % type.bytes, 0u) << type.name;
    const uint64_t blocks = bytes.size() / type.bytes;
    ASSERT_EQ(expected.size(), blocks * type.values * 4) << type.name;
    std::vector<float> values(blocks * type.values);
    type.decode(bytes.data(), blocks, values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const uint8_t* e = &expected[4 * i];
      const uint32_t bits = uint32_t{e[0]} << 24 | uint32_t{e[1]} << 16 | uint32_t{e[2]} << 8 | e[3];
      if (std::bit_cast<float>(bits) != std::bit_cast<float>(bits)) {
        EXPECT_NE(values[i], values[i]) << type.name << " value " << i;  // NaN
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), bits) << type.name << " value " << i;
      }
    }
  }
}

TEST(Blocks, AreFoundByIdAndName) {
  EXPECT_EQ(FindBlockType(14)->name, "Q6_K");
  EXPECT_EQ(FindBlockType("BF16")->id, 30u);
  EXPECT_EQ(FindBlockType(10), nullptr);  // Q2_K
  EXPECT_EQ(FindBlockType("Q2_K"), nullptr);
}

}  // namespace
}  // namespace ingot::gguf
