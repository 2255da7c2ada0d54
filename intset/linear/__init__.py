"""The linear form: the canonical middle that domains, isl and z3 are fed from."""
