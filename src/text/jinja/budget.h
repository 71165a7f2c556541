// Budget: the steps and bytes that one rendering may use. It applies to its thread while it lives. All code that makes
// text or walks over values charges it, so that no template runs for long or fills memory.
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

// One step is about one evaluated node or one visited item. Throws TemplateError when the budget is spent. Does nothing
// outside of a rendering.
void ChargeSteps(uint64_t count);
// Charges bytes of text or values that were made, whether or not they are kept.
void ChargeBytes(uint64_t count);
// Charges for reading a text of `bytes` bytes without making anything.
inline void ChargeScan(size_t bytes) { ChargeSteps(1 + bytes / 64); }

}  // namespace ingot::text::jinja
