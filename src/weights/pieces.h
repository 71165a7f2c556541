// Processes many pieces in parallel: the tensors in a version, or the slices of a tensor.
#pragma once

#include <cstdint>
#include <functional>

namespace ingot::weights {

// Calls work(piece, worker) once for each piece in [0, count), in any order, on at most `threads` threads, including
// the calling thread. A thread has the same worker index in [0, threads) in all its calls. Returns when all pieces are
// done.
void ForEachPiece(int threads, int64_t count, const std::function<void(int64_t piece, int worker)>& work);

// Returns the number of threads for `bytes` of work: one per 4 MiB, and at most `most`. For smaller pieces, handing
// them to a thread takes longer than processing them.
int ThreadsFor(int64_t bytes, int most);

}  // namespace ingot::weights
