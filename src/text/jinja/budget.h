// Limits the steps and bytes that one rendering may use. A Budget applies to its thread until it is destroyed. All code
// that creates strings or loops over values charges it, so no template can run for long or exhaust memory.
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

// One step is roughly one evaluated node or one visited item. Throws TemplateError if the budget is exhausted. Does
// nothing outside a rendering.
void ChargeSteps(uint64_t count);
// Charges bytes for created strings or values, whether or not they are kept.
void ChargeBytes(uint64_t count);
// Charges for reading `bytes` bytes without allocating anything.
inline void ChargeScan(size_t bytes) { ChargeSteps(1 + bytes / 64); }

}  // namespace ingot::text::jinja
