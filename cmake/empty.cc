// The source of a target that has only precompiled headers, which others reuse, or only archives.
