// Only carries precompiled headers, which targets reuse.
