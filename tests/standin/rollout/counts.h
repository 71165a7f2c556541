// What the stand-in has counted since an object was made (runtime/standin.h).
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace ingot::rollout {

class Counts {
 public:
  uint64_t launches() const { return Count("ingot_standin_launches") - launches_; }
  uint64_t operators() const { return Count("ingot_standin_operators") - operators_; }
  uint64_t uploads() const { return Count("ingot_standin_uploads") - uploads_; }

 private:
  static uint64_t Count(const char* what) {
    const auto count = reinterpret_cast<uint64_t (*)()>(::dlsym(RTLD_DEFAULT, what));
    EXPECT_NE(count, nullptr) << what;
    return count == nullptr ? 0 : count();
  }

  const uint64_t launches_ = Count("ingot_standin_launches"), operators_ = Count("ingot_standin_operators"),
                 uploads_ = Count("ingot_standin_uploads");
};

}  // namespace ingot::rollout
