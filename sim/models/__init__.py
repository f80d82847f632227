"""The DNNs that can be parallelized, one constructor per file, in the sizes of the FlexFlow paper."""
