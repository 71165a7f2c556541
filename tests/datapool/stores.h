// The stores for a pool's records, for tests of the laws that each store must keep.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "datapool/make_pool.h"
#include "datapool/postgres/postgres_server.h"

namespace ingot::datapool::testing {

// The server of this process's tests, which the first call starts; nullptr = PostgreSQL is not installed.
inline PostgresServer* SharedServer() {
  static const std::unique_ptr<PostgresServer> server =
      PostgresPrograms().empty() ? nullptr : std::make_unique<PostgresServer>();
  return server.get();
}

// The parameter is StoreOptions::backend. Each test has its own pool.
class StoreContract : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!OnPostgres()) return;
    PostgresServer* const server = SharedServer();
    if (server == nullptr) GTEST_SKIP() << "PostgreSQL is not installed: scripts/setup.sh services";
    ASSERT_TRUE(server->ok());
  }
  static bool OnPostgres() { return GetParam() == std::string("postgres"); }

  StoreOptions Options(int shards = 1) const {
    StoreOptions options = QuickOptions(dir_.path());
    options.backend = GetParam();
    options.shards = shards;
    if (!OnPostgres()) return options;
    options.postgres.url = SharedServer()->url();
    options.postgres.name = dir_.path().substr(dir_.path().rfind('-') + 1);
    options.postgres.run_id = "run";
    options.postgres.allow_single = true;
    options.postgres.retry_after_error_s = 0;
    return options;
  }

  TempDir dir_;
};

// INSTANTIATE_TEST_SUITE_P(Over, MySuite, kStores, kStoreName);
inline const auto kStores = ::testing::Values("rocksdb", "postgres");
inline constexpr auto kStoreName = [](const ::testing::TestParamInfo<const char*>& one) {
  return std::string(one.param);
};

}  // namespace ingot::datapool::testing
