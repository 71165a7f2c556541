// Only carries the precompiled torch headers that every torch target reuses.
