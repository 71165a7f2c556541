// The plans that a device's kernels have made for one batch, kept from the first layer's call for the others.
//
// The owner of a batch's integer arrays makes one and gives it to every layer's call (TreeAttentionOptions::plans). A
// device then builds a plan and copies it once per batch, not once per layer. Layers with different windows or heads have
// a plan each, as do forward and backward passes. The CPU needs no plans.
//
// REQUIRES: all calls with one object have the same visible_end, positions, block_table, sequences, and q_offset, and
// nobody changes them in place. Used by one thread at a time.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

namespace ingot::kernels {

class AttentionPlans final : public torch::CustomClassHolder {
 public:
  // exact = on devices, the rows of sequences of every length are summed in the same order (decode_plan.h), so they have
  // the same bits in a step of decode, in a prompt, and in the trainer's paths.
  explicit AttentionPlans(bool exact = false) : exact_(exact) {}
  bool exact() const { return exact_; }

  // What a plan depends on, apart from the integer arrays. Chosen by the device's library.
  using Key = std::array<int64_t, 10>;

  // Returns the plan for `key`, after a call to `make` if there is none. `make` returns a std::shared_ptr<const T>.
  // REQUIRES: T is the same for equal keys.
  template <typename T, typename F>
  std::shared_ptr<const T> Get(const Key& key, const F& make) {
    std::shared_ptr<const void>& plan = plans_[key];
    if (plan == nullptr) plan = std::shared_ptr<const T>(make());
    return std::static_pointer_cast<const T>(plan);
  }

 private:
  const bool exact_;
  std::map<Key, std::shared_ptr<const void>> plans_;
};

using OptionalPlans = std::optional<c10::intrusive_ptr<AttentionPlans>>;

}  // namespace ingot::kernels
