#include "datapool/store_model.h"

#include "datapool/stores.h"

namespace ingot::datapool {
namespace {

class StoreModel : public testing::StoreContract {
 protected:
  // Random operations on the pool, as it is opened again and again, and on the model.
  void Run(uint64_t seed, int shards) {
    StoreOptions options = Options(shards);
    const std::string tag = std::to_string(seed);
    options.path += "/" + tag;
    options.postgres.name += "_" + tag;
    testing::RunRandomOperations(seed, shards, [&] { return OpenPool(options); });
  }
  static uint64_t Seeds(uint64_t many) { return OnPostgres() ? many / 2 : many; }
};

INSTANTIATE_TEST_SUITE_P(Over, StoreModel, testing::kStores, testing::kStoreName);

TEST_P(StoreModel, AgreesWithAPlainModel) {
  for (uint64_t seed = 0; seed < Seeds(6); ++seed) Run(seed, 1);
}

TEST_P(StoreModel, SeveralShardsAgreeWithAPlainModel) {
  for (uint64_t seed = 0; seed < Seeds(3); ++seed) Run(seed, 3);
}

}  // namespace
}  // namespace ingot::datapool
