"""Token mixers as loops over the symbols of their equations: slow, and plain enough to be checked by eye.

Each oracle takes a built mixer (for its weights and sizes), one row x [T,D], and `visible` [T,T]: whether
position m exists for the output at position i (it is a token, and of the same segment). It returns [T,D] as
float64. That of a mixer which supports a prefix takes one more argument, `prefix` [T] of bools. One file
holds one family.
"""
