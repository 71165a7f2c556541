// Provides an earlier run's batches as input for training (`ingot retrain`). Their order comes from the run's journal,
// and their groups and grades from its pool.
//
//   journal   step 0   step 1   step 2   step 3    trained = a later version went live, or a checkpoint includes them
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
  int64_t step = 0;                // step in the earlier run
  std::vector<int64_t> group_ids;  // in training order
  bool whole = false;              // true = the pool has all of its groups
};

struct StoredBatches {
  std::vector<StoredBatch> trained;  // by step
  int64_t lost = 0;                  // earlier steps were in a lost journal (JournalBegun); 0 = none

  // Returns the batches whose groups are all in the pool.
  std::vector<StoredBatch> Whole() const;
  // Returns the trained steps whose groups are missing, in ascending order.
  std::vector<int64_t> Gone() const;
};

// Reads the journal and lists the pool's groups. Returns the pool's errors.
absl::StatusOr<StoredBatches> ReadStoredBatches(datapool::Client& pool);

// Formats ascending steps as "0 to 4, 7".
std::string DescribeSteps(const std::vector<int64_t>& steps);

// Not thread safe.
class StoredBatchSource final : public trainer::BatchSource {
 public:
  // `fingerprint` identifies the trained model's tokenizer. REQUIRES: `pool` and `retry` outlive this object.
  StoredBatchSource(datapool::Client& pool, std::vector<StoredBatch> batches, std::string fingerprint,
                    const RetryPolicy& retry);

  // Returns the batch at position `step`, without FeedStats. Versions in it are renumbered starting with the first
  // remaining step: if the batch at position 2 was step 5, version 4 becomes 1, and versions 0 to 3 become 0. Returns
  // NOT_FOUND if the pool has lost a group, INVALID_ARGUMENT if a call was sampled with another tokenizer, and
  // OUT_OF_RANGE if the batch does not exist.
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
