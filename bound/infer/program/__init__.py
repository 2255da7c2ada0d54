"""The program behind a schedule: accesses of operations, sizes, shared loops."""
