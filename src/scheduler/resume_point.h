// The checkpoint from which a run resumes.
#pragma once

#include <cstdint>

namespace ingot::scheduler {

struct ResumePoint {
  ResumePoint(int64_t checkpoint, int64_t group = 0)  // NOLINT(google-explicit-constructor)
      : step(checkpoint), next_group(group) {}
  int64_t step;
  int64_t next_group;  // the next group to admit if the pool is empty; 0 = unknown
};

}  // namespace ingot::scheduler
