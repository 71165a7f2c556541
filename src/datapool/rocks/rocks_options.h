// Creates the RocksDB options for one shard's files.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/options.h>

#include "datapool/store.h"

namespace ingot::datapool {

// `env` is the RocksDB environment; null = the default. RocksDB messages go to the program's log.
rocksdb::Options RocksOptions(const StoreOptions& options, rocksdb::Env* env);

}  // namespace ingot::datapool
