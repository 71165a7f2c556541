// Damage that RocksDB takes for something else: one flipped bit would make it forget records or end the process.
//
//   log     blocks of 32 KiB, the last one shorter: NUMBER.log, and the list of tables, MANIFEST-NUMBER
//   record  checksum (4) | length (2) | type (1) | bytes       of a block; the checksum covers type and bytes
//   table   ... | checksum type (1) | places of its indexes (40) | format (4) | magic number (8)
#pragma once

#include <string>

namespace ingot::datapool {

// The format and the checksum type of all tables.
inline constexpr unsigned kTableFormat = 5;
inline constexpr unsigned kTableChecksum = 4;  // rocksdb::kXXH3

// Says which record of a log is damaged so that RocksDB would take it for the log's end; empty = none, or the log is
// unreadable. RocksDB then forgets the record with all that follow:
//
// - A record of the last block that goes on behind the log's end is for RocksDB one that a crash cut, and that was never
//   acknowledged. The checksum of a whole record tells that its length alone is damaged.
// - A record with the type of logs that are written a second time is one of the first time. The pool's logs never are.
//
// `checksums`: names records with a wrong checksum too. RocksDB finds them, and does not say in which log.
std::string DamagedLog(const std::string& path, bool checksums);

// True if the file ends as a table does. One that does not is a table that RocksDB was still writing, or a damaged one.
bool EndsAsTable(const std::string& path);

// Says how the end of a table differs from that of all tables; empty = it does not, or the file is no whole table. RocksDB
// reads the blocks of a table by the format that its end names, and asserts that they are so.
std::string DamagedFooter(const std::string& path);

}  // namespace ingot::datapool
