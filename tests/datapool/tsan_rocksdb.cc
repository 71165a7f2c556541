// Suppressions for TSan: RocksDB's library is not instrumented, so TSan misses its locks and reports its accesses. The
// code that calls RocksDB stays checked.
#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:librocksdb\nrace:librocksdb\n"; }
#endif
