// Options of jemalloc for programs that link it (target ingot_allocator). jemalloc finds the variable by its name at the
// start of the process. MALLOC_CONF in the environment overrides it.
//
// One arena serves all threads; by default jemalloc makes four per core. An arena reuses only memory that was freed in
// it, and any free thread may run a call of a conversation. So with many arenas the free memory of one does not serve
// the others. On two cores that cost up to a fifth of the gateway's resident memory. Each thread caches small blocks. A
// call of the gateway locks the arena about a dozen times, each for parts of a microsecond. That would matter at some
// ten thousand calls a second.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "narenas:1";
}
