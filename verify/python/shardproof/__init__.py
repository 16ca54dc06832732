"""The client of shardproof: a program in Python, run as the ranks of a virtual world."""
