// Damage that RocksDB mistakes for something else: one flipped bit would make it drop records or end the process.
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

// Returns which record of a log is damaged in a way that RocksDB mistakes for the log's end; empty = none, or the log
// is unreadable. RocksDB then drops that record and all records after it:
//
// - If a record of the last block extends past the log's end, RocksDB assumes that a crash cut it before it was
//   acknowledged. The checksum of a whole record shows that only its length is damaged.
// - If a record has the type of reused logs, RocksDB assumes it is left over from the first use. The pool reuses no
// log.
//
// `checksums`: also reports records with a wrong checksum. RocksDB finds them, but does not say in which log.
std::string DamagedLog(const std::string& path, bool checksums);

// True if the file ends like a table. Otherwise RocksDB was still writing it, or it is damaged.
bool EndsAsTable(const std::string& path);

// Returns how a table's footer differs from every other table's; empty = it does not, or the file is not a whole table.
// RocksDB reads the blocks of a table in the format that its footer names, and asserts that they match.
std::string DamagedFooter(const std::string& path);

}  // namespace ingot::datapool
