// The trained batches of an earlier run as a source for another training (`ingot retrain`). The run's journal
// gives their order, and its pool their groups with the stored grades.
//
//   journal   step 0   step 1   step 2   step 3    trained: a later version went live, or a checkpoint contains them
//   pool         -        -     groups   groups    - = trimmed (datapool.keep_steps)
//   source                      step 0   step 1
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/run/persist.h"
#include "base/status.h"
#include "datapool/client.h"
#include "trainer/batch_source.h"

namespace ingot::app {

struct StoredBatch {
  int64_t step = 0;                // of the run that trained it
  std::vector<int64_t> group_ids;  // in training order
  bool whole = false;              // the pool has all of its groups
};

struct StoredBatches {
  std::vector<StoredBatch> trained;  // by step
  int64_t lost = 0;                  // steps below this were in a journal that is lost (JournalBegun); 0 = none

  // The batches whose groups are all in the pool.
  std::vector<StoredBatch> Whole() const;
  // The trained steps without their groups, ascending.
  std::vector<int64_t> Gone() const;
};

// Reads the journal, and lists the pool's groups. Errors are the pool's.
absl::StatusOr<StoredBatches> ReadStoredBatches(datapool::Client& pool);

// "0 to 4, 7" of ascending steps.
std::string DescribeSteps(const std::vector<int64_t>& steps);

// Not thread safe.
class StoredBatchSource final : public trainer::BatchSource {
 public:
  // `fingerprint`: of the trained model's tokenizer. `pool` and `retry` outlive it.
  StoredBatchSource(datapool::Client& pool, std::vector<StoredBatch> batches, std::string fingerprint,
                    const RetryPolicy& retry);

  // The batch at position `step`. Its versions count from the first remaining step: for a batch at position 2 that was
  // step 5, version 4 becomes 1, and versions 0 to 3 become 0. It has no FeedStats. NOT_FOUND: the pool has lost a
  // group. INVALID_ARGUMENT: a call was sampled with another tokenizer. OUT_OF_RANGE: there is no such batch.
  absl::StatusOr<trainer::TrainBatch> Next(int64_t step) override;

 private:
  absl::StatusOr<v1::Group> Read(int64_t id, int64_t step);
  absl::Status CheckTokenizer(const v1::Group& group) const;

  datapool::Client& pool_;
  const std::vector<StoredBatch> batches_;
  const std::string fingerprint_;
  const RetryPolicy& retry_;
};

}  // namespace ingot::app
