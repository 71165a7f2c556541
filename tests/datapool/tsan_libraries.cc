// Suppressions for TSan: the libraries of RocksDB and PostgreSQL are not instrumented, so TSan misses their locks and
// reports their accesses. The code that calls them stays checked.
#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:librocksdb\nrace:librocksdb\ncalled_from_lib:libpq\n";
}
#endif
