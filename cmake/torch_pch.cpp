// Exists so that the precompiled LibTorch header is built exactly once.
