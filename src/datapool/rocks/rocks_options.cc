#include "datapool/rocks/rocks_options.h"

#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "datapool/rocks/file_damage.h"

namespace ingot::datapool {
namespace {

// Sends RocksDB's log messages to the program's log. RocksDB's own log file would crash the process if it could not be
// written, for example on a full disk.
class RocksLogger final : public rocksdb::Logger {
 public:
  explicit RocksLogger(std::string path) : Logger(rocksdb::InfoLogLevel::WARN_LEVEL), path_(std::move(path)) {}
  void Logv(const char* format, va_list arguments) override {
    Logv(rocksdb::InfoLogLevel::INFO_LEVEL, format, arguments);
  }
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < GetInfoLogLevel() || level == rocksdb::InfoLogLevel::HEADER_LEVEL) return;
    char line[1024];
    std::vsnprintf(line, sizeof(line), format, arguments);
    if (level >= rocksdb::InfoLogLevel::ERROR_LEVEL) {
      INGOT_LOG(info, "RocksDB at {}: {}", path_, line);
    } else {
      INGOT_LOG(debug, "RocksDB at {}: {}", path_, line);
    }
  }

 private:
  const std::string path_;
};

// Prevents RocksDB from recovering on its own from a full disk. max_bgerror_resume_count does not cover that error. Its
// recovery thread does not wake a thread that is closing the files, so closing them could block forever.
class RecoversNothing final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* auto_recovery) override {
    *auto_recovery = false;
  }
  // A compaction that finds the disk full is retried a second later. Otherwise its error would persist and fail a much
  // later write that only needed to wait.
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    const bool soft = error->severity() <= rocksdb::Status::Severity::kSoftError;
    if (reason == rocksdb::BackgroundErrorReason::kCompaction && soft) *error = rocksdb::Status::OK();
  }
};

}  // namespace

rocksdb::Options RocksOptions(const StoreOptions& options, rocksdb::Env* env) {
  rocksdb::Options rocks;
  if (env != nullptr) rocks.env = env;
  rocks.create_if_missing = !options.read_only;
  rocks.create_missing_column_families = !options.read_only;
  rocks.paranoid_checks = true;
  // A truncated record at the end of a log was never acknowledged. Any other damage is an error.
  rocks.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // Otherwise, a family that is rarely written would keep the logs of all families.
  rocks.max_total_wal_size = 4 * options.write_buffer_bytes;
  rocks.db_write_buffer_size = options.write_buffer_bytes;
  rocks.write_buffer_size = options.write_buffer_bytes / 2;
  rocks.max_background_jobs = 2;
  // Without a limit, all table files of a long run would be open at once, which exceeds the process's limit. A reader
  // keeps all of them open, because the writing process deletes tables that it has compacted.
  rocks.max_open_files = options.read_only ? -1 : std::max(32, 512 / options.shards);
  rocks.max_file_opening_threads = 1;  // a pool has too few files for threads to pay off
  rocks.max_bgerror_resume_count = 0;  // Recover decides when to retry
  rocks.listeners.push_back(std::make_shared<RecoversNothing>());
  rocks.stats_dump_period_sec = 0;
  rocks.stats_persist_period_sec = 0;
  rocks.info_log = std::make_shared<RocksLogger>(options.path);
  rocks.compression = rocksdb::kLZ4Compression;
  rocksdb::BlockBasedTableOptions table;
  table.format_version = kTableFormat;
  table.checksum = static_cast<rocksdb::ChecksumType>(kTableChecksum);
  table.block_cache = rocksdb::NewLRUCache(options.cache_bytes / options.shards);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  // Indexes and filters count against the cache's limit. Otherwise, they take tens of megabytes per stored gigabyte.
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  rocks.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return rocks;
}

}  // namespace ingot::datapool
