// Work on many pieces at once: the tensors of a version, or the slices of a tensor.
#pragma once

#include <cstdint>
#include <functional>

namespace ingot::weights {

// Calls work(piece, worker) once for each piece in [0, count), in any order, on at most `threads` threads, the caller's
// among them. A thread has the same worker in [0, threads) at each call. Returns when all are done.
void ForEachPiece(int threads, int64_t count, const std::function<void(int64_t piece, int worker)>& work);

// The number of threads for `bytes` of work: at most `most`, and no extra thread for less than 4 MiB, which takes
// longer to hand over than to process.
int ThreadsFor(int64_t bytes, int most);

}  // namespace ingot::weights
