"""What a part of an operator computes, by family of kinds."""
