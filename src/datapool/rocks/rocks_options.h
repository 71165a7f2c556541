// RocksDB's options for the files of one shard.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/options.h>

#include "datapool/store.h"

namespace ingot::datapool {

// `env`: RocksDB's view of the machine; null = the real one. RocksDB logs to the program's log.
rocksdb::Options RocksOptions(const StoreOptions& options, rocksdb::Env* env);

}  // namespace ingot::datapool
