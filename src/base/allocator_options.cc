// Sets the jemalloc options for programs that link it (target ingot_allocator). At startup, jemalloc looks up this
// variable by name. The MALLOC_CONF environment variable overrides it.
//
// One arena serves all threads. By default, jemalloc creates four per core. An arena reuses only memory that was freed
// in it, and a conversation's calls run on any free thread. So with many arenas, memory that is free in one is not
// available to the others. On two cores, that cost up to a fifth of the gateway's resident memory. Each thread caches
// small blocks. A gateway call locks the arena about a dozen times, for a fraction of a microsecond each. This would
// matter only at tens of thousands of calls per second.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "narenas:1";
}
