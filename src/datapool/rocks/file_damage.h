// Detects file damage that RocksDB misinterprets: a single flipped bit could drop records or crash the process.
//
//   log     blocks of 32 KiB, the last one shorter: NUMBER.log, and the list of tables, MANIFEST-NUMBER
//   record  checksum (4) | length (2) | type (1) | bytes       in a block; the checksum covers type and bytes
//   table   ... | checksum type (1) | positions of its indexes (40) | format (4) | magic number (8)
#pragma once

#include <string>

namespace ingot::datapool {

// The format and checksum type used for all tables.
inline constexpr unsigned kTableFormat = 5;
inline constexpr unsigned kTableChecksum = 4;  // rocksdb::kXXH3

// Describes the first damaged log record that RocksDB mistakes for the end of the log. Returns an empty string if there
// is none or the log is unreadable. RocksDB drops that record and all later ones:
//
// - If a record in the last block extends past the end of the log, RocksDB assumes that a crash cut it off before it
//   was acknowledged. If its checksum matches, only its length is damaged.
// - If a record has the type that only reused logs have, RocksDB assumes that it is left over from an earlier use.
//   The pool does not reuse logs.
//
// With `checksums`, also reports records with a wrong checksum. RocksDB detects those but does not report which log.
std::string DamagedLog(const std::string& path, bool checksums);

// Returns true if the file ends like a complete table. Otherwise, it is damaged or RocksDB was still writing it.
bool EndsAsTable(const std::string& path);

// Describes how a table's footer deviates from kTableFormat and kTableChecksum. Empty = it does not deviate, or the
// file is not a complete table. RocksDB reads a table's blocks in the format that the footer specifies, and asserts
// that they match.
std::string DamagedFooter(const std::string& path);

}  // namespace ingot::datapool
