// The memory of large CPU tensors, kept when they are freed and used again.
//
// A training step makes and frees tensors of megabytes by the thousand. Where each of them goes back to the system, the
// system clears every page again before it gives it out: a quarter of a bf16 step's time, once the products take
// little.
//
// Tensors never hold more for it than they did at their fullest: whatever is kept is used for the next one, of whatever
// size. Where no block is large enough, the pages of several are moved behind one another (mremap), which
// costs a small part of clearing them; new ones come only when none is kept.
#pragma once

#include <cstdint>

namespace ingot::trainer {

// From now on, and for the whole process, CPU tensors of 1 MiB and more have such memory. To be called before other
// threads make tensors; once is enough, more often changes nothing.
void KeepTensorMemory();

struct TensorMemory {
  int64_t live = 0;    // bytes of large tensors
  int64_t kept = 0;    // bytes that none holds, for those to come
  int64_t pieces = 0;  // mappings of the system's that both take, at most
};
TensorMemory TensorMemoryNow();

// Lets the system take what is kept, should it need it before the next tensors do. After a step: others have their
// turn.
void OfferTensorMemory();

// Gives what is kept back to the system.
void ReleaseTensorMemory();

}  // namespace ingot::trainer
