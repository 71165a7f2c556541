// What one rendering may cost. The interpreter sets a Budget for its thread; everything that makes text or goes over
// values charges it, so that no template, however it is written, runs for long or fills memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot::text::jinja {

class Budget {
 public:
  Budget(uint64_t steps, uint64_t bytes);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

 private:
  friend void ChargeSteps(uint64_t count);
  friend void ChargeBytes(uint64_t count);
  uint64_t steps_, bytes_;
  Budget* const outer_;
};

// One step is about one node evaluated or one item gone over. Throws TemplateError when the budget is spent; free
// outside of a rendering.
void ChargeSteps(uint64_t count);
// Bytes of text or values made, whether or not they are kept.
void ChargeBytes(uint64_t count);
// A pass over a text of `bytes`, which makes nothing.
inline void ChargeScan(size_t bytes) { ChargeSteps(1 + bytes / 64); }

}  // namespace ingot::text::jinja
