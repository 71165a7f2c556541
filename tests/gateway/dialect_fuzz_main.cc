// libFuzzer's entry for one dialect, INGOT_FUZZ_DIALECT. Needs no corpus: an empty one begins with the dialect's full
// body.
//
//   build/fuzz/tests/gateway/fuzz_chat.completions -max_total_time=60 -max_len=65536
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gateway/dialect_fuzzer.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const fuzzer = new ingot::gateway::DialectFuzzer(INGOT_FUZZ_DIALECT);
  const std::string wrong = fuzzer->Try(std::string(reinterpret_cast<const char*>(data), size));
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::mt19937 random(seed);
  std::string body(reinterpret_cast<const char*>(data), size);
  if (size < 2) {
    for (const auto& [name, full] : ingot::gateway::kFullBodies) {
      if (std::strcmp(name, INGOT_FUZZ_DIALECT) == 0) body = full;
    }
  } else if (random() % 2 == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  } else {
    body = ingot::gateway::MutateBody(body, random);
  }
  body.resize(std::min(body.size(), max_size));
  std::memcpy(data, body.data(), body.size());
  return body.size();
}
