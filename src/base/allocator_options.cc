// How jemalloc is set in programs that are linked with it (target ingot_allocator). It reads this by its name when the
// process starts; what MALLOC_CONF in the environment says goes before it.
//
// One arena for all threads. By itself jemalloc makes four for each core, and an arena reuses only what was freed in
// it. A dialogue's calls are made by whichever threads are free, so what it keeps is spread over all of them and the
// free room of one does not serve the others: with two cores up to a fifth of the gateway's resident memory, coming and
// going with the dialogues. Small blocks are given and taken by each thread's own cache; a call of the gateway takes a
// lock of the arena about a dozen times for parts of a microsecond, which would be felt at some ten thousand calls a
// second.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "narenas:1";
}
