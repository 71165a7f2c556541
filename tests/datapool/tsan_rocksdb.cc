// RocksDB's library is not instrumented, so that TSan does not see its locks and reports its accesses. What it is
// called from stays under watch.
#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:librocksdb\nrace:librocksdb\n"; }
#endif
